"""The parts that adapters of programs of others share."""
