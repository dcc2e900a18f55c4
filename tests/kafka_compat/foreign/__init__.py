"""Clients in other languages against three brokers: `python -m tests.kafka_compat.foreign`."""
