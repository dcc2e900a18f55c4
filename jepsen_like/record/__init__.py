"""Reads what a run recorded: attempts, figures, evidence of faults, and the losses that they allow."""
