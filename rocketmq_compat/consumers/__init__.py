"""What a broker knows of its clients, and the rules of consuming: pure; the shell does all IO.

`registry` which clients are there, `subscriptions` what they want, `locks` who consumes a queue in order, `offsets` how far groups are,
`waiting` pulls that are held, `retry` messages that are sent back, `delays` messages that wait for their time, `topics` and `groups`
the configured. Each is a class or a few functions of its own that take the time and return what is to be done.
"""
