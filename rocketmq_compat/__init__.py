"""Brokers and name servers for RocketMQ's unmodified clients, replicated between a master and its slaves, or by raft.

`remoting` turns bytes into commands and back, and carries them. `records`, `config`, `nameserver.routes`, `replication`
and `consumers` are pure. `storage` keeps the commit log and the consume queues on disk, `broker` is the shell around
all of it, `process` has the processes.
"""

__distribution__ = "quorumlog"
