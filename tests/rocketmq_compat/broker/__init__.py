"""Tests of brokers over sockets: what clients see, and what a master and its slaves do together."""
