"""The mirror between Kafka clusters: its batches, and real brokers."""
