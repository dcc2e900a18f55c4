"""Brokers for Kafka's unmodified clients, with Kafka's replication by in-sync replicas (ISR).

`protocol` turns bytes into messages and back. Three deciders are pure: `partition` (one replica of one partition),
`controller` (brokers, topics, leaders; a state machine of a raft group inside the brokers) and `coordinator` (consumer
groups and their offsets). `storage` keeps logs on disk, `broker` is the shell around all of it, and `process` is the
process.
"""

__distribution__ = "quorumlog"
