"""One replica of one partition, as a decider without IO: see `core.PartitionReplica`, then `events` and `effects`."""
