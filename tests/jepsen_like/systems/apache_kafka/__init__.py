"""The adapter of Apache Kafka."""
