"""The group coordinator: classic consumer groups with static membership, and their offsets. Pure; the shell does all IO.

One `core.GroupCoordinator` for each partition of `__consumer_offsets` that this broker leads. It takes `events` and returns
`effects`; everything it knows is in the records of that partition.
"""
