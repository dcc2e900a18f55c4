"""The adapter of ZooKeeper."""
