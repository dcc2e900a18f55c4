"""The mirror: its decider, its map of offsets, and what happens between two clusters."""
