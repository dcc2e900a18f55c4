"""The systems that a run can break."""
