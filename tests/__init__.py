"""quorumlog tests."""
