"""The simulator's own tests, and fresh seeds."""
