"""Load: what clients ask, how they are driven, and how every attempt is recorded."""
