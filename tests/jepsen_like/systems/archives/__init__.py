"""Programs of others in the user's cache."""
