"""The operator's commands: see and change a running cluster, by its own protocol and no other way.

`log` serves raft groups; `topics`, `groups` and `brokers` serve clusters of Kafka's and RocketMQ's protocol through an
`Administration` of the system's adapter. Commands for members and leadership of a raft group belong next to `log`.
"""
