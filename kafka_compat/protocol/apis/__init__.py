"""One file for each API: the tables of its messages in all supported versions."""
