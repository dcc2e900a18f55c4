"""The promises of `jepsen_like.record`."""
