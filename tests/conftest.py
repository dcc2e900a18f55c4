"""Shared by tests: which come first, how Hypothesis and Ctrl-C behave here, pytest's own tool for tests of plugins, a disk to cut the power of, and what
foreign clients leave behind.
"""

import gc
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from jepsen_like.cluster.volumes import NoVolumes, Volume, Volumes
from tests.examples import TIMES, examples

if TYPE_CHECKING:
    from jepsen_like.cluster.authority import Authority

pytest_plugins = ["pytester"]

SPARK_CLUSTER = Path(__file__).parent / "jepsen_like" / "checker" / "engine" / "test_cluster.py"

# No deadline: two shared cores make any single example slow now and then. The quick tests draw the same examples each time,
# so that a change is red by its own fault; the campaign draws fresh ones, and its runs add up. A failure prints the blob that
# reproduces it.
hypothesis.settings.register_profile(
    "house", max_examples=examples(30), deadline=None, derandomize=TIMES == 1, print_blob=True
)
hypothesis.settings.load_profile("house")

# A shell starts what it runs in the background with this signal ignored, and so would be whatever the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a JVM, and let it come first, since it takes longest, and of that first what has an application of its own.

    No process can have two at once, and the one that the others share lasts until the end.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: 2 - (item.get_closest_marker("spark") is not None) - (item.path == SPARK_CLUSTER))


def pytest_collection_finish() -> None:
    """Let no collection of garbage walk what lasts as long as the process: all modules and the ten thousand tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def volume() -> Iterator[Volume]:
    """A file system of its own, whose power can be cut; the test is skipped, with the reason, where that needs more rights."""
    try:
        volumes = Volumes()
    except NoVolumes as error:
        pytest.skip(str(error))
    with volumes:
        yield volumes.make(1)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> "Authority":
    """An authority with certificates of `server`, and of the client `alice`."""
    from jepsen_like.cluster.authority import Authority  # its package is an extra

    made = Authority.at(tmp_path_factory.mktemp("authority"))
    made.issue_node("server")
    made.issue_client("alice")
    return made


@pytest.fixture
def foreign_sockets() -> Iterator[None]:
    """For a test that runs a foreign client in this process. kafka-python never closes a socket whose connection was refused; the
    exception that its frame holds is part of a cycle, so that the warning would come when garbage is collected, in some other test.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()
