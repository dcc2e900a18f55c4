"""Sockets and frames, for any wire: knows nothing of terms, topics or clients."""
