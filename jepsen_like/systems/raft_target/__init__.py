"""A raft group that others run."""
