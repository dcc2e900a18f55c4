"""Rehearses the loss of a city: two clusters, a mirror, an operator who switches, and clients who go on."""
