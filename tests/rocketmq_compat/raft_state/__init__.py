"""What the brokers of a raft group agree on."""
