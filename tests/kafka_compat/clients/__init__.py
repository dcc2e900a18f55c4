"""Unmodified Kafka clients against three brokers: ours, or Apache Kafka's with an environment variable."""
