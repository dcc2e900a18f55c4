"""Faults: a schedule drawn from one seed, carried out on real processes, and recorded as it was seen."""
