"""Checks queues of elements, sets, keys and objects of a user's class."""
