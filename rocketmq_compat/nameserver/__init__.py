"""The name server: which brokers there are, and which queues they have. `routes` decides, `server` is the shell around it."""
