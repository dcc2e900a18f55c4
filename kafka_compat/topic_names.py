"""Topic names: 1 to 249 letters, digits, `.`, `_` and `-`, and neither `.` nor `..` (Topic.validate in Kafka)."""

import re
from typing import Final

NAME_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_valid_topic_name(name: str) -> bool:
    """Returns True if a topic may have this name."""
    return len(name) <= NAME_MAX and name not in (".", "..") and _LEGAL.fullmatch(name) is not None
