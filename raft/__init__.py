"""raft"""

__distribution__ = "quorumlog"
