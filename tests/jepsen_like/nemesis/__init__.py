"""Faults: their drawing, their timing, and the proof that they took effect."""
