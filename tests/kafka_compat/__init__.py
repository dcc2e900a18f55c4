"""The promises of the Kafka mode."""
