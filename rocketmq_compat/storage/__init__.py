"""The disk of a RocketMQ-compatible broker: the commit log and all data derived from it.

It uses neither network nor tasks.
"""
