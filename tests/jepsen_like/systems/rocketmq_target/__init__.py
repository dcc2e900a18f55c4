"""A RocketMQ cluster that others run."""
