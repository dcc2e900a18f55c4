"""The judge of partitions that clients of any Kafka wrote to and polled, by what these clients saw alone."""
