"""The adapter of NATS: servers of a cluster whose JetStream stream, replicated by Raft, is the log."""
