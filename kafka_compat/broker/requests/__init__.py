"""The request handlers by theme: each module handles a few APIs."""
