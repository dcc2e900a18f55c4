"""The Kafka system: brokers of `kafka_compat.process`, under unmodified clients (confluent-kafka)."""
