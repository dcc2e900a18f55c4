"""jepsen_like"""
