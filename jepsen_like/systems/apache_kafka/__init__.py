"""Apache Kafka itself, behind the port."""
