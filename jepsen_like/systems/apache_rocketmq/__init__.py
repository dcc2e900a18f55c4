"""Apache RocketMQ itself, behind the port."""
