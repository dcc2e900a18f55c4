"""The adapter of ZooKeeper: servers of one ensemble, and registers that clients read, write and compare."""
