"""The controller: which brokers are alive, which topics there are, and who leads and replicates every partition.

It is Kafka's KRaft controller in the form of a state machine that a raft group replicates: every broker applies the same
commands and so has the same image of the cluster. All of it is pure. Read `commands.py` (what can be asked), `image.py` (what
is known), `machine.py` (what a command does), then the rules: `elections.py`, `placement.py`, `alter_partition.py`, `topics.py`.
`liveness.py` decides, at the leader of the raft group alone, when to propose that a broker is fenced or unfenced.
"""
