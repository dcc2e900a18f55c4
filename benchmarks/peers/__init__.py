"""Other replicated systems under the loads of `quorumlog bench raft`: their processes, and a client for each."""
