"""Raft as a model: the real core, outbox, storage and log, over a simulated network, clock and disk.

Read `world.py` first (the pump), then `machine.py` (one node), then `audits.py` and `invariants.py` (what must hold).
"""
