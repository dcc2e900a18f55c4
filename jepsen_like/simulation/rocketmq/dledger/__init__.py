"""RocketMQ's raft groups (DLedger) in virtual time: the real driver, core, copy, tables and request handlers.

Nothing of the broker is written again here: a simulated broker has other sockets, disks and clocks, and calls the same
objects in the order of the real one's rounds.
"""
