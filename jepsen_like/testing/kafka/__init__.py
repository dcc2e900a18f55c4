"""Clusters of Kafka brokers that a test can break."""
