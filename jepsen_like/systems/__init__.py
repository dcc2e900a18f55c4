"""The systems that a run can break, each behind one port (`jepsen_like/port/port.py`), in a package of its own."""
