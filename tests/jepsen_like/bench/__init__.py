"""The comparison with peers: wires, figures, answers, and a short run of the whole command."""
