"""The requests of clients and administrators, one module a theme. Each gives its handlers by request code."""
