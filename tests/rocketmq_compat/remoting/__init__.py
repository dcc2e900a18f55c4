"""Frames, header fields and bodies of the remoting protocol, and the sessions and the client that carry them."""
