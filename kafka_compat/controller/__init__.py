"""The controller: it decides which brokers are alive, which topics exist, and who leads and replicates every partition.

It is Kafka's KRaft controller in the form of a state machine that a raft group replicates. Every broker applies the
same commands and so has the same image of the cluster. The package is pure. Read `commands.py` (the requests),
`image.py` (the state of the cluster), `machine.py` (the effect of each command), then the rules: `elections.py`,
`placement.py`, `alter_partition.py`, `topics.py`. `liveness.py` runs only at the leader of the raft group. It decides
when to propose that a broker is fenced or unfenced.
"""
