"""RocketMQ's part of the benchmark: its wire, its tables, and a short run."""
