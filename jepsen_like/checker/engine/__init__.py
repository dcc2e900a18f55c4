"""Runs tasks in this process or on Spark."""
