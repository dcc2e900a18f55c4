"""The judge of compaction: the last value of a key stays, nothing comes back, and nothing leaves too early."""
