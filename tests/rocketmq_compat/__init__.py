"""The promises of the RocketMQ modes."""
