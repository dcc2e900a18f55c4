"""The broker: its parts with scripted neighbours, whole clusters in one process, and the process itself."""
