"""The name server: it knows the brokers and their queues. `routes` decides, `server` is the shell around it."""
