"""An append-only log in segment files: it knows offsets and epochs, nothing of votes, topics or clients.

Start reading at `log.segmented_log`, or for many logs in one process at `log.store`. `log.frame` specifies the format
on disk, `log.recovery` is how a log is opened after a crash.
"""

__distribution__ = "quorumlog"
