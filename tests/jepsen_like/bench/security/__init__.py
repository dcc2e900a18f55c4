"""The security part of the benchmark: its tables, and a short run."""
