"""Attempts of clients and what is known of each: the values and the files."""
