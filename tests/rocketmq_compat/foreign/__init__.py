"""Unmodified clients in other languages against our brokers: `python -m tests.rocketmq_compat.foreign`."""
