"""The place of the Kafka-compatible broker: its wire protocol and its replication by in-sync replicas (ISR).

Nothing is built here yet. It will hold the protocol, `partition.py` (the decider of one partition: log end offset,
in-sync replicas, high watermark, leader epoch), the controller on a raft group, and the broker around them.
"""
