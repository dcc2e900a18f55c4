"""Checks logs: short ones in memory, long ones in parts."""
