"""The default of what the connections of a process may hold, by the memory that there is."""

import os
from contextlib import suppress
from typing import Final

MIB: Final = 1024 * 1024
MEMORY_SHARE: Final = 8
"""By default the total is one of so many parts of the memory."""
TOTAL_BYTES_MIN: Final = 256 * MIB
TOTAL_BYTES_MAX: Final = 4096 * MIB
"""The bounds of that default."""
_CGROUP_LIMIT: Final = "/sys/fs/cgroup/memory.max"


def default_total_bytes() -> int:
    """Returns an eighth of the memory of this machine or container, 256 MiB at least and 4 GiB at most."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError), open(_CGROUP_LIMIT, encoding="ascii") as limit:  # there, or "max"
        memory = min(memory, int(limit.read()))
    return min(max(memory // MEMORY_SHARE, TOTAL_BYTES_MIN), TOTAL_BYTES_MAX)
