"""The adapter of RabbitMQ: nodes of one cluster, and a queue that clients publish to and take from."""
