"""The promises of `jepsen_like.checker.compaction`."""
