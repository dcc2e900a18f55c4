"""The mirror between RocketMQ clusters."""
