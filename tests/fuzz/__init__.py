"""Garbage on every port, and what must not come of it."""
