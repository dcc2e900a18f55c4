"""A RocketMQ broker group as a system of the simulator: the real copies of a commit log and the real HA stream, under
virtual time.

A master and its slaves, clients that send records, and an operator who promotes slaves and decides about divergences.
"""
