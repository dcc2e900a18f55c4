"""Promises of the judge of transactions of several operations."""
