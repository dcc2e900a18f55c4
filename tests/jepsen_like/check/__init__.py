"""The promises of `jepsen_like.check`."""
