"""Clusters of Kafka brokers for tests, in one process and of real processes: what a test can do with them."""
