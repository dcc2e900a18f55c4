"""RocketMQ's broker groups in raft mode (DLedger) in virtual time: the real driver, core, copy, tables and handlers of
requests on imagined disks.

Nothing of the broker is written again here: a simulated broker has other sockets, disks and clocks, and calls the same
objects in the order of the real one's rounds.
"""
