"""The mirror between two Kafka clusters: its connections, transactions and commands."""
