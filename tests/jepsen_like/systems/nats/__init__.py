"""The adapter of NATS."""
