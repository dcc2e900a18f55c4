"""Checks partitions of queues, and what their consumers polled or were pushed."""
