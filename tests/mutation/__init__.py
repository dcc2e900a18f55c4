"""Mechanical mutation: every small change of a rule, one at a time, and whether a promise notices. See `__main__.py`."""
