"""A mirror copies topics and groups' offsets from one cluster to another, and a switch moves clients over."""
