"""Tests of the Raft core and its shell."""
