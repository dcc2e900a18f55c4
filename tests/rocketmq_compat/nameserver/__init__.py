"""The name server: its decider against rules and a model, and the whole over sockets."""
