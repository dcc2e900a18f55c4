"""Brokers and name servers that RocketMQ's unmodified clients talk to, replicated between a master and its slaves, or by raft.

`remoting` turns bytes into commands and back, and carries them. `records`, `config`, `nameserver.routes`, `replication` and `consumers` are
pure. `storage` keeps the commit log and the consume queues on the disk, `broker` is the shell around all of it, `process` the processes.
"""

__distribution__ = "quorumlog"
