"""Unmodified clients of RocketMQ against name servers and brokers in processes of their own."""
