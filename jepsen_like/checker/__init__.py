"""Decides whether a recorded history kept its promise, and shows why not in a few operations.

The kernels know neither files nor Spark; the engines know neither models nor rules; `checking.py` joins the two.
"""
