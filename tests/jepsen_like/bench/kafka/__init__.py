"""Kafka's part of the benchmark: its tables, a short run, and where the jars of its peer come from."""
