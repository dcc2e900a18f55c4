"""A RocketMQ broker group in virtual time: the real copies of a commit log and the real HA stream.

A master and its slaves, clients that send records, and an operator who promotes slaves and decides about divergences.
"""
