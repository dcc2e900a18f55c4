"""The mirror between two RocketMQ clusters: each copied message names its origin, and a topic of claims keeps the epoch."""
