"""Raises the number of files and connections that a process may have open, as far as it may by itself."""

import resource
from contextlib import suppress

NO_LIMIT = 2**31


def raise_limit() -> int:
    """Raise the soft limit of descriptors of this process to its hard limit.

    Returns the limit, `NO_LIMIT` if there is none.

    The customary soft limit of 1024 is there for programs that use `select`.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # no harm: it then has fewer
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft
