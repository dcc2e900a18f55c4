"""The promises of `jepsen_like.rehearse`."""
