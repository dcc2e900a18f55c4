"""jepsen_like"""

__distribution__ = "quorumlog"
