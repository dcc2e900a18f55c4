"""The promises of `jepsen_like.checker.register`."""
