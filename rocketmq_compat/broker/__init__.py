"""The shell of a broker: sockets, disk and time around the deciders of `replication` and the rules of `consumers`.

`broker.py` has the parts and their order. `replicated_log.py` carries out the orders of the copy of the commit log.
`requests/` serves clients by theme. `tables.py` keeps topics, groups and offsets on disk. `delays.py` delivers delayed
messages. `registration.py` is the name servers' side. `ha_links.py` has the connections between a master and its
slaves, and `slave_sync.py` copies the rest to a slave. In a raft group (`dledger.py`), `raft_copy.py`,
`raft_tables.py`, and `catch_up.py` with the rules of `copying.py` replace these.
"""
