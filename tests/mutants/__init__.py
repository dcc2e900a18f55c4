"""Deliberate bugs, and the proof that the oracles see them. See `catalogue.py`; run with `python -m tests.mutants`."""
