"""What is broken, when, and the proof that it was."""
