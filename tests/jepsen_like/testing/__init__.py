"""Tests of the clusters for tests."""
