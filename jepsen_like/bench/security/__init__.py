"""The price of a secret and of TLS, for each system of ours."""
