"""The simulated Kafka cluster keeps what Kafka promises."""
