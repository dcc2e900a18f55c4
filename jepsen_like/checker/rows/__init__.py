"""Reads rows of histories as columns, and groups them by object."""
