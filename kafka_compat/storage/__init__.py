"""What a broker keeps on its disk: the log of each partition, and the facts that a restart needs besides it. No network, no tasks."""
