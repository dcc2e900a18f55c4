"""What a RocketMQ-compatible broker keeps on its disk: the commit log and all that is derived from it. No network, no tasks."""
