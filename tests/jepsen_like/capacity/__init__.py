"""Capacity: its plan, its figures, and one trial on real brokers."""
