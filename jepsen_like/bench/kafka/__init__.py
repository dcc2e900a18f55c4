"""Our Kafka-style brokers measured with Apache Kafka's own: the same client, on the same machine, in one run."""
