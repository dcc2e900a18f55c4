"""The house checks: what must hold for the source itself. Run all with `python -m tests.house`."""
