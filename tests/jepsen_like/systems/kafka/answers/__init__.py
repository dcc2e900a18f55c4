"""The proxy that answers on request."""
