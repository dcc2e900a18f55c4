"""The adapter of etcd."""
