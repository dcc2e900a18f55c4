"""The raft system: nodes of `quorumlog node`, its log and its register."""
