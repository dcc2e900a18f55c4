"""The adapter of RabbitMQ."""
