"""The shell of a broker: sockets, disk and time around the deciders of `replication` and the rules of `consumers`.

`broker.py` has the parts and their order. It stores messages through a port (`replication_port.py`) with two sides:
`fixed_roles.py` and `raft_group.py` (DLedger mode). With fixed roles `replicated_log.py` carries out the orders of the
copy of the commit log, `ha_links.py` has the connections between a master and its slaves, and `slave_sync.py` copies
the tables to a slave. In a raft group (`dledger.py`), `raft_copy.py`, `raft_tables.py`, and `catch_up.py` with the
rules of `copying.py` do so. `requests/` serves clients by theme. `tables.py` keeps topics, groups and offsets on disk.
`delays.py` delivers delayed messages. `registration.py` is the name servers' side.
"""
