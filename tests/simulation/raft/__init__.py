"""Whole Raft groups in virtual time."""
