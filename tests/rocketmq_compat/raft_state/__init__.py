"""The state that the brokers of a raft group agree on."""
