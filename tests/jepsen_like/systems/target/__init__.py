"""Clusters that others run."""
