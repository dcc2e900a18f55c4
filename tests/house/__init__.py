"""The house checks: what must hold for the source itself, whoever wrote it. Run all with `python -m tests.house`."""
