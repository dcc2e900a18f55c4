"""What a RocketMQ-compatible broker keeps on its disk: commit log, consume queues, key index, checkpoints and retention."""
