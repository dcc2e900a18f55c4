"""The place of the RocketMQ-compatible broker: its remoting protocol and replication between a master and its slaves.

Nothing is built here yet. It will hold the remoting frames, `replication.py` (the decider for fixed roles: asynchronous
copies and synchronous double writes), the commit log with its consume queues, name server routes, and the broker
around them.
"""
