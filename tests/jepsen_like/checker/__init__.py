"""The checker's promises, and a second opinion that shares nothing with it."""
