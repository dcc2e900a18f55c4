"""The systems that a run can break, each behind the same port (`jepsen_like/port/port.py`), each in a package of its
own.
"""
