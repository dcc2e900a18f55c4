"""Clients that reach servers by the wire only, one attempt at a time, and say exactly what is known of each."""
