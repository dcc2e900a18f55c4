"""Decides whether a recorded history kept its promise, and shows why not in a few operations.

The kernels know neither files nor Spark; the engines know neither models nor rules; `checking.py` joins the two.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jepsen_like.check.library import Checked


def check(session: Any, history: Any, model: str | None = None) -> "Checked":
    """Check a history in a `SparkSession` that the caller has; see `library.check`, which is loaded only now.

    The workers of a cluster import this package and need none of what that module does.
    """
    from jepsen_like.check import library

    return library.check(session, history, model)
