"""The broken network and the real processes."""
