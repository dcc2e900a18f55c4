"""Checks one log of any length: in chunks of time, ranges of places and parts of its values."""
