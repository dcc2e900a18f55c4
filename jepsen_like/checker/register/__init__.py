"""Checks registers for linearizability."""
