"""What clients and administrators ask of a broker, one module a theme. Each gives its handlers by request code."""
