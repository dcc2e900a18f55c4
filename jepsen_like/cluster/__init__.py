"""Real node processes behind a network that can be broken: everything is reached by the wire or by the process id."""
