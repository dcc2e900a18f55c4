"""Finds out what the environment lacked when a job of Spark failed, from the messages of Spark and py4j."""

import errno
import re
import socket
from collections.abc import Sequence
from typing import Any, Final

from jepsen_like.checker.engine.attempts import Failed
from jepsen_like.cli import EnvironmentMissing

DRIVER_MEMORY: Final = "1g"
"""The heap of our JVM, through which results pass: they do not grow with the history."""
CONNECT_SECONDS_MAX: Final = 5.0
LISTENING: Final = {"spark": "Spark master", "sc": "Spark Connect server"}
DEFAULT_PORTS: Final = {"spark": "7077", "sc": "15002"}
WORKERS_PYTHON: Final = "PYSPARK_PYTHON names the one to use, with the packages of quorumlog[check]"
_MISSING_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_MISSING_PROGRAM: Final = re.compile(r'Cannot run program "([^"]*python[^"]*)"')


def lacking_of(text: str, master: str, *, stopped: bool) -> Exception | None:
    """Returns what a failed job lacked, by what was printed of it; `stopped` if Spark itself has ended. None: nothing of the environment."""
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return OSError(errno.ENOSPC, "Spark found no room on its disk")
    if "java.lang.OutOfMemoryError" in text:
        return EnvironmentMissing(f"Spark's JVM has no memory left; it may take {DRIVER_MEMORY} here")
    if "Python worker exited unexpectedly" in text:
        return EnvironmentMissing("a Python worker of Spark was killed; the machine may have no memory left")
    if "PYTHON_VERSION_MISMATCH" in text:
        return EnvironmentMissing(
            f"the workers have another minor version of Python than this process; {WORKERS_PYTHON}"
        )
    if (missing := _MISSING_MODULE.search(text)) is not None:
        return EnvironmentMissing(f"the Python of the workers has no module {missing[1]}; {WORKERS_PYTHON}")
    if (missing := _MISSING_PROGRAM.search(text)) is not None:
        return EnvironmentMissing(f"the workers have no program {missing[1]}; {WORKERS_PYTHON}")
    if "ExecutorLostFailure" in text or "SparkExitCode" in text:
        return EnvironmentMissing(f"Spark lost an executor, and its work could not be done elsewhere (master {master})")
    if not stopped:
        return None
    if master.startswith("local"):
        return EnvironmentMissing("Spark's JVM ended before the check did; the machine may have no memory left")
    return EnvironmentMissing(f"no answer from the Spark master {master}: without --master this machine does the work")


def text_of(error: Exception) -> str:
    """Returns the text of an exception of py4j, of which not even that is certain once its JVM has gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - py4j asks the JVM for the text
        return repr(type(error))


def no_executors(master: str) -> EnvironmentMissing:
    """Returns what to tell of a master that gave an application nothing to work with."""
    return EnvironmentMissing(
        f"the Spark master {master} has no executor for the check: has it workers with free cores and memory?"
    )


def require_results(results: Sequence[Any]) -> list[Any]:
    """Returns the results of tasks. Raises what one that failed for a user's reason stands for."""
    for failed in (one for one in results if isinstance(one, Failed)):
        if isinstance(failed.error, MemoryError):
            raise EnvironmentMissing(f"a worker of the check has no memory left ({failed.error})")
        raise failed.error
    return list(results)


def require_listener(url: str) -> None:
    """Raises `EnvironmentMissing` if no address of a standalone master, or of a Connect server, takes connections.

    Spark itself tries for minutes. Of other masters (yarn, k8s, local) nothing is known.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in LISTENING:
        return
    refused = []
    for address in rest.partition("/")[0].split(","):
        host, _, port = address.rpartition(":") if ":" in address else (address, ":", DEFAULT_PORTS[scheme])
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS_MAX):
                return
        except ValueError:
            refused.append(f"{address} is no host:port")
        except OSError as error:
            refused.append(f"{address}: {error.strerror or error}")
    raise EnvironmentMissing(
        f"no answer from the {LISTENING[scheme]} {url} ({'; '.join(refused)}): without it this machine does the work"
    )
