"""Copies of a commit log: golden scripts, rules one by one, the wire, and a master with slaves under any sequence of
events.
"""
