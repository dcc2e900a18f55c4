"""The shell of a broker: sockets, disk and time around the deciders of `replication` and the rules of `consumers`.

`broker.py` has the parts and their order, `replicated_log.py` carries out what the copy of the commit log orders, `requests/` serves
clients by theme, `tables.py` keeps topics, groups and offsets on the disk, `delays.py` delivers delayed messages, `registration.py` is
the name servers' side, `ha_links.py` the connections between a master and its slaves, `slave_sync.py` what a slave copies besides.
Where brokers of one name are a raft group (`dledger.py`), `raft_copy.py`, `raft_tables.py`, and `catch_up.py` by the rules
of `copying.py`, take the places of these.
"""
