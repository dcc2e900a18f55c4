"""The deciders of two topics, and their shells."""
