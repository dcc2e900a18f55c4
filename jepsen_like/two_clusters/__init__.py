"""One topic in each of two clusters as an experiment: one cluster is lost and comes back with what no one had read."""
