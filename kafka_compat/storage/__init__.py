"""A broker's disk: the log of each partition, and the facts that a restart needs. It uses neither network nor tasks."""
