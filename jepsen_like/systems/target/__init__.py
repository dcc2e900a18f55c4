"""The part that adapters of clusters of others share."""
