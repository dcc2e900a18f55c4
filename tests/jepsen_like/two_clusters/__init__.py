"""The experiment with two topics: its figures from a history."""
