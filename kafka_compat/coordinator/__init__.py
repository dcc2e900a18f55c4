"""The group coordinator: classic consumer groups with static membership, and their offsets.

Pure; the shell does all IO. Each partition of `__consumer_offsets` that this broker leads has a
`core.GroupCoordinator`. It takes `events` and returns `effects`; its whole state is in the records of that partition.
"""
