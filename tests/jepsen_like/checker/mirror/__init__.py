"""The promises of `jepsen_like.checker.mirror`."""
