"""A Kafka cluster that others run."""
