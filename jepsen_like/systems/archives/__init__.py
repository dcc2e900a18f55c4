"""Programs of others, brought into the user's cache and checked against hashes that are committed here."""
