"""The adapter of RocketMQ's replication: a master with slaves, or a group that elects its master."""
