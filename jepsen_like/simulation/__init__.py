"""Whole clusters in virtual time: `kernel` knows no system, `raft` is one. Read `raft/world.py` first."""
