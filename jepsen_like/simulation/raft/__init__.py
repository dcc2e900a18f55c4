"""Raft as a model: the real driver, with all below it, over a simulated network, clock and disk.

Read `world.py` first (the pump), then `machine.py` (one node), then `audits.py` and `invariants.py` (what must hold).
"""
