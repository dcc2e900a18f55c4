"""Our RocketMQ-style brokers measured with Apache RocketMQ's own: the same client, on the same machine, in one run."""
