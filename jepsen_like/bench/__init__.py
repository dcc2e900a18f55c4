"""Figures beside peers: the same load, on the same machine, in one run (`quorumlog bench`)."""
