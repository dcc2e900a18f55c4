"""Fixtures for the tests of programs that use the log: a cluster that a test can break, in blocking calls.

    def test_orders_survive_the_leader(raft_cluster):
        with raft_cluster.client() as client:
            client.append([b"order 1"])
            raft_cluster.kill(raft_cluster.wait_for_leader())
            client.append([b"order 2"])

- `raft_cluster`: nodes inside the test's process, there in milliseconds (`jepsen_like.LocalCluster`).
- `raft_processes`: real processes, for `kill -9` and `kill -STOP` (`ProcessCluster`); about a second to start.
- `kafka_cluster`, `kafka_processes`: the same of Kafka brokers, for unmodified clients, which get `kafka_cluster.bootstrap_servers`;
  `kafka_cluster_factory(brokers=3, settings={...})` makes one within the test; `@pytest.mark.kafka_cluster(brokers=3, settings={...},
  check=True)` sets them up.
- `rocketmq_cluster`, `rocketmq_processes`: the same of a RocketMQ name server with a master and a slave; clients get
  `rocketmq_cluster.namesrv_addr`; `@pytest.mark.rocketmq_cluster(pairs=1, slaves=1, sync=False, properties={...}, check=True)` sets them up.
- `@pytest.mark.raft_cluster(nodes=5, settings=["flush=none"], check=False)` sets them up: `nodes`, `settings`, for
  `raft_cluster` also `seed` and `state_machine`; and whether the cluster is checked at the end.
- Every one of them takes `zones="3"` and `zone_delay_s=0.002`; then `raft_cluster.zone("a")` names the nodes of a zone.

After a test that passed, the cluster is healed and held to its promises: what was acknowledged and is lost fails the test. A
test that failed shows the cluster's last events. Either way nothing is left behind.

Async tests use the fixtures, too: the cluster runs in a thread of its own, so only a call that waits (`wait_for_leader`,
`check`) is better made in `asyncio.to_thread` or `trio.to_thread.run_sync`. Importing this module imports nothing but pytest.
"""

import contextlib
import difflib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

if TYPE_CHECKING:
    from jepsen_like.testing.kafka.sync import LocalKafka, ProcessKafka
    from jepsen_like.testing.rocketmq.sync import LocalRocketMq, RocketMqProcesses
    from jepsen_like.testing.sync import LocalCluster, ProcessCluster

    AnyCluster = LocalCluster | ProcessCluster | LocalKafka | ProcessKafka | LocalRocketMq | RocketMqProcesses

T = TypeVar("T")
ClusterT = TypeVar(
    "ClusterT", "LocalCluster", "ProcessCluster", "LocalKafka", "ProcessKafka", "LocalRocketMq", "RocketMqProcesses"
)
MARKER = (
    "raft_cluster(nodes=3, settings=(), check=True, ...): how the cluster of `raft_cluster` or `raft_processes` is made"
)
KAFKA_MARKER = "kafka_cluster(brokers=3, settings={}, check=True, ...): how the cluster of `kafka_cluster` or `kafka_processes` is made"
ROCKETMQ_MARKER = (
    "rocketmq_cluster(pairs=1, slaves=1, sync=False, properties={}, check=True, ...): "
    "how the cluster of `rocketmq_cluster` or `rocketmq_processes` is made"
)
CLUSTERS: "pytest.StashKey[dict[str, AnyCluster]]" = pytest.StashKey()
FIXTURES = (
    "raft_cluster",
    "raft_processes",
    "kafka_cluster",
    "kafka_cluster_factory",
    "kafka_processes",
    "rocketmq_cluster",
    "rocketmq_processes",
)
OF_ALL = ("tls", "zones", "zone_delay_s", "check")
"""The options of every cluster."""
ROCKETMQ_OPTIONS = ("pairs", "slaves", "sync", "properties")
STORIES = pytest.StashKey[dict[str, str]]()
"""The last events of each cluster as they were when its test ended or failed: what comes after is the harness's doing."""
HAS_FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", KAFKA_MARKER)
    config.addinivalue_line("markers", ROCKETMQ_MARKER)


def pytest_fixture_setup(fixturedef: "pytest.FixtureDef[Any]") -> None:
    """Refuse to lend a cluster of packages that are not ours, with what to do."""
    if fixturedef.argname in FIXTURES:
        from jepsen_like import installation

        if (reason := installation.complaint()) is not None:
            _refuse(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the clusters of a failed test went through."""
    report = yield
    if report.failed:
        item.stash[HAS_FAILED] = True
        for name, cluster in item.stash.get(CLUSTERS, {}).items():
            report.sections.append((f"last events of {name}", _story(item, name, cluster)))
    if report.when == "teardown":  # pytest keeps its items, and may run one again
        _forget(item, CLUSTERS)
        _forget(item, STORIES)
        _forget(item, HAS_FAILED)
    return report


def _story(item: pytest.Item, name: str, cluster: "AnyCluster") -> str:
    """The last events of a cluster, up to the first time that this is called for it."""
    stories = item.stash.setdefault(STORIES, {})
    if name not in stories:
        stories[name] = cluster.story()
    return stories[name]


def _forget(item: pytest.Item, key: pytest.StashKey[T]) -> None:
    if key in item.stash:
        del item.stash[key]


@pytest.fixture
def raft_cluster(request: pytest.FixtureRequest) -> "Iterator[LocalCluster]":
    """A cluster of three nodes in this process, with a leader; see `jepsen_like.LocalCluster`."""
    from jepsen_like.testing.sync import LocalCluster

    options, is_checked = _options(request, ("nodes", "settings", "seed", "state_machine", *OF_ALL))
    with _open(LocalCluster.open(**options)) as cluster:
        yield from _lend(request, cluster, is_checked)


@pytest.fixture
def raft_processes(request: pytest.FixtureRequest) -> "Iterator[ProcessCluster]":
    """A cluster of three processes, with a leader; see `jepsen_like.ProcessCluster`."""
    from jepsen_like.testing.sync import ProcessCluster

    options, is_checked = _options(request, ("nodes", "settings", *OF_ALL))
    directory = request.getfixturevalue("tmp_path") / "raft_processes"
    with _open(ProcessCluster.open(directory=directory, **options)) as cluster:
        yield from _lend(request, cluster, is_checked)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[LocalKafka]":
    """Three brokers in this process, which all serve; see `jepsen_like.LocalKafka`."""
    from jepsen_like.testing.kafka.sync import LocalKafka

    options, is_checked = _options(request, ("brokers", "settings", "seed", *OF_ALL), "kafka_cluster")
    with _open(LocalKafka.open(**options)) as cluster:
        yield from _lend(request, cluster, is_checked)


@pytest.fixture
def kafka_cluster_factory(request: pytest.FixtureRequest) -> "Iterator[Callable[..., LocalKafka]]":
    """Makes clusters like `kafka_cluster`: `kafka_cluster_factory(brokers=3, settings={...}, check=True)`; each is checked at the end."""
    from jepsen_like.testing.kafka.sync import LocalKafka

    with contextlib.ExitStack() as stack:
        lent: list[Iterator[LocalKafka]] = []

        def make(*, check: bool = True, **options: Any) -> "LocalKafka":
            cluster = stack.enter_context(_open(LocalKafka.open(**options)))
            lending = _lend(request, cluster, check, f"kafka_cluster_factory {len(lent) + 1}")
            lent.append(lending)
            return next(lending)

        yield make
        for lending in lent:
            next(lending, None)


@pytest.fixture
def kafka_processes(request: pytest.FixtureRequest) -> "Iterator[ProcessKafka]":
    """Three brokers as processes, which all serve; see `jepsen_like.ProcessKafka`."""
    from jepsen_like.testing.kafka.sync import ProcessKafka

    options, is_checked = _options(request, ("brokers", "settings", *OF_ALL), "kafka_cluster")
    directory = request.getfixturevalue("tmp_path") / "kafka_processes"
    with _open(ProcessKafka.open(directory=directory, **options)) as cluster:
        yield from _lend(request, cluster, is_checked)


@pytest.fixture
def rocketmq_cluster(request: pytest.FixtureRequest) -> "Iterator[LocalRocketMq]":
    """A name server, a master and a slave in this process, which all serve; see `jepsen_like.LocalRocketMq`."""
    from jepsen_like.testing.rocketmq.sync import LocalRocketMq

    options, is_checked = _options(request, (*ROCKETMQ_OPTIONS, "seed", *OF_ALL), "rocketmq_cluster")
    with _open(LocalRocketMq.open(**options)) as cluster:
        yield from _lend(request, cluster, is_checked)


@pytest.fixture
def rocketmq_processes(request: pytest.FixtureRequest) -> "Iterator[RocketMqProcesses]":
    """The same as processes; see `jepsen_like.RocketMqProcesses`."""
    from jepsen_like.testing.rocketmq.sync import RocketMqProcesses

    options, is_checked = _options(request, (*ROCKETMQ_OPTIONS, *OF_ALL), "rocketmq_cluster")
    directory = request.getfixturevalue("tmp_path") / "rocketmq_processes"
    with _open(RocketMqProcesses.open(directory=directory, **options)) as cluster:
        yield from _lend(request, cluster, is_checked)


def _options(
    request: pytest.FixtureRequest, names: Sequence[str], marked: str = "raft_cluster"
) -> tuple[dict[str, Any], bool]:
    """Returns the nearest marker's options, and True to check the cluster in the end; refuses a wrong one in a line."""
    marker = request.node.get_closest_marker(marked)
    if marker is not None and marker.args:
        _refuse(f"{marked} takes names only, as in {names[0]}=5: not {marker.args[0]!r} alone")
    options = dict(marker.kwargs) if marker is not None else {}
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            _refuse(f"for {request.fixturename} the marker {marked} takes {', '.join(names)}, not {name!r}{meant}")
    return options, bool(options.pop("check", True))


@contextlib.contextmanager
def _open(opening: contextlib.AbstractContextManager[ClusterT]) -> Iterator[ClusterT]:
    """Open a cluster. Settings that it refuses are an error of the test in one line."""
    from jepsen_like.port.port import WrongMode
    from jepsen_like.port.zones import WrongZones
    from raft.settings import WrongSetting

    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(opening)
        except (WrongMode, WrongSetting, WrongZones) as error:
            raise pytest.fail.Exception(str(error).removeprefix("--set: "), pytrace=False) from None
        yield cluster


def _refuse(reason: str) -> NoReturn:
    pytest.fail(reason, pytrace=False)


def _lend(request: pytest.FixtureRequest, cluster: ClusterT, is_checked: bool, name: str = "") -> Iterator[ClusterT]:
    """Give the cluster to the test and take it back: a test that failed has its reason already, any other is checked."""
    name, node = name or str(request.fixturename), request.node
    node.stash.setdefault(CLUSTERS, {})[name] = cluster
    yield cluster
    _story(node, name, cluster)
    if is_checked and not node.stash.get(HAS_FAILED, False):
        verdict = cluster.check()
        node.add_report_section("teardown", name, str(verdict))
        if not verdict.valid:
            pytest.fail(f"{name}: {verdict}", pytrace=False)
