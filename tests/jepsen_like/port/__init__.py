"""The promises of `jepsen_like.port`."""
