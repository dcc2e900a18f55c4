"""Tests of the clusters of RocketMQ brokers."""
