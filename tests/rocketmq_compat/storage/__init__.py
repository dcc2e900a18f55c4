"""The disk of a RocketMQ-compatible broker: commit log, consume queues, key index, checkpoints and retention."""
