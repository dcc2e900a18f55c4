"""The adapter of etcd: members of one cluster, and registers that clients read, write and compare."""
