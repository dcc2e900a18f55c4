"""What a broker keeps on its disk: partitions, snapshots, checkpoints, retention and compaction."""
