"""The promises of a run."""
