"""One copy of a commit log, as a decider without IO: see `core.CommitLogReplica`, then `events` and `effects`."""
