"""A claim's verdict follows from its figures, and every claim has one or a reason."""
