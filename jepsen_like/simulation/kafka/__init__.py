"""A Kafka cluster in virtual time, a model of the simulator's kernel (`model.KAFKA`).

The deciders of partitions, controller and groups are real; shell, disks, network, clocks and raft group simulated.
"""
