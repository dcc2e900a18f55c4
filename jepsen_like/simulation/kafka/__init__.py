"""A Kafka cluster in virtual time: the real deciders of partitions, controller and groups over simulated disks, network
and clocks.

A model of the simulator's kernel (`model.KAFKA`). Only the cluster's shell, its disks and its raft group are simulated.
"""
