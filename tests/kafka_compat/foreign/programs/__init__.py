"""Whole programs that were not written here, against three brokers that are killed one after another."""
