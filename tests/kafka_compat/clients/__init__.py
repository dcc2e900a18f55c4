"""Unmodified Kafka clients against three brokers: ours, or with an environment variable those of Apache Kafka."""
