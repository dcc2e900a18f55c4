"""Judges partitions that are mirrored between two clusters, and the switch from one to the other."""
