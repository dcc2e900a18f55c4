"""Answers on request: a proxy before brokers whose clients get an error, a late answer or none, as a test asks for."""
