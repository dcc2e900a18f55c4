"""The adapter of Apache RocketMQ."""
