"""One run: start, load, break, heal, dump, check and report; and runs that are compared: scenarios, the matrix."""
