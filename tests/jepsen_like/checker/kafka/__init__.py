"""Promises of the judge of partitions that clients of any Kafka wrote to and polled."""
