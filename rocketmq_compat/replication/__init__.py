"""One copy of a broker's commit log, as a decider without IO: see `core.CommitLogReplica`, then `events`
and `effects`.
"""
