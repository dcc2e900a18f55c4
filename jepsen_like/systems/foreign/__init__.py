"""The parts that adapters of programs of others share: how such a process is started, watched and asked."""
