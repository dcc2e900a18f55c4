"""The broker: sockets, disk and time around the deciders of partitions, controller and groups.

Begin with `broker.py`.
"""
