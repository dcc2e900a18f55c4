"""Judges recorded runs and histories of others: reads them, gives them to the checker, and reports the verdict."""
