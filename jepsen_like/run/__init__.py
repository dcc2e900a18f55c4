"""One run: start, load, break, heal, dump, check and report."""
