"""Claims about replicated queues as experiments: each is judged from the figures of recorded runs."""
