"""A broker's data on disk: partitions, snapshots, checkpoints, retention and compaction."""
