"""Brokers that Kafka's unmodified clients talk to, with Kafka's replication by in-sync replicas (ISR) for real.

`protocol` turns bytes into messages and back. Three deciders are pure: `partition` (one replica of one partition), `controller` (brokers, topics,
leaders; a state machine of a raft group inside the brokers) and `coordinator` (consumer groups and their offsets). `storage` keeps logs on the
disk, `broker` is the shell around all of it, `process` the process.
"""

__distribution__ = "quorumlog"
