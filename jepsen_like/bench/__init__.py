"""Figures of the log and of comparable systems: the same load, on the same machine, in one run (`quorumlog bench`)."""
