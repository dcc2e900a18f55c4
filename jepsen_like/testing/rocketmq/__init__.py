"""Clusters of RocketMQ brokers that a test can break."""
