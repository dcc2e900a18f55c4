"""Simulated broker groups of RocketMQ."""
