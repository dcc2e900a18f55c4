"""Tests of what surrounds the core: wire, disk, driver, node."""
