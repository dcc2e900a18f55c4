"""The Kafka-compatible broker: its wire protocol and its replication by in-sync replicas (ISR).

`protocol` is built: bytes into messages and back, without IO. There is no broker yet: the decider of one partition (log end
offset, in-sync replicas, high watermark, leader epoch), the controller on a raft group and what serves clients are still to come.
"""
