"""The mechanisms of SASL, tested without a wire."""
