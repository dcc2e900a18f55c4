"""The fixtures, used as a user's test would use them, by a pytest of their own."""

import importlib
import subprocess
import sys
from collections.abc import Callable

import pytest

import jepsen_like.testing.sync  # noqa: F401 - what a run inside this one imports first would be dropped at its end
from tests.house.checks import settings

PLAIN = """
    def test_orders_survive_the_leader(raft_cluster):
        with raft_cluster.client() as client:
            client.append([b"order 1"])
            raft_cluster.kill(raft_cluster.wait_for_leader())
            client.append([b"order 2"])
"""


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a test file in a pytest that has the plugin of this project and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess("-p", "jepsen_like.testing.plugin", *options)

    return run


def test_a_test_that_passes_is_told_what_its_cluster_kept(run: Run) -> None:
    result = run(PLAIN, "-rP")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["2 records acknowledged, 2 in the log: nothing acknowledged was lost"])


def test_a_test_that_fails_shows_the_last_events_and_is_not_checked(run: Run) -> None:
    result = run("""
        def test_wrong(raft_cluster):
            raft_cluster.kill(raft_cluster.wait_for_leader())
            assert raft_cluster.leader() == 7
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*last events of raft_cluster*", "*role=leader term=1*", "*killed*"])
    result.stdout.no_fnmatch_line("*in the log*")


def test_a_loss_fails_a_test_that_would_have_passed(run: Run) -> None:
    result = run("""
        import pytest

        @pytest.mark.raft_cluster(settings=["flush=none"])
        def test_powerless(raft_cluster):
            with raft_cluster.client() as client:
                client.append([b"order 1"])
            raft_cluster.crash(*raft_cluster.nodes)
    """)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["raft_cluster: 1 record acknowledged, 0 in the log: offset 0, b'order 1', is lost"])
    result.stdout.fnmatch_lines(["*last events of raft_cluster*", "*crashed*"])
    told = result.stdout.str().partition("last events of raft_cluster")[2]
    assert told.count("crashed") == 3
    assert "checked" not in told  # nor what came after: how the cluster was healed, and how it was ended
    assert told.rpartition("crashed")[2].count("n1  started") == 0
    assert "Traceback" not in told


def test_the_marker_says_how_many_nodes_and_whether_to_check(run: Run) -> None:
    run(
        """
        import pytest

        @pytest.mark.raft_cluster(nodes=5, settings=["flush=none"], check=False)
        def test_powerless(raft_cluster):
            assert raft_cluster.nodes == (1, 2, 3, 4, 5)
            with raft_cluster.client() as client:
                client.append([b"order 1"])
            raft_cluster.crash(*raft_cluster.nodes)
    """,
        "--strict-markers",
    ).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("fixture", "marker", "said"),
    [
        ("raft_cluster", "node=5", "'node'; did you mean nodes?"),
        ("raft_cluster", "size=5", "nodes, settings, seed, state_machine, tls, zones, zone_delay_s, check, not 'size'"),
        ("raft_processes", "seed=5", "nodes, settings, tls, zones, zone_delay_s, check, not 'seed'"),
    ],
)
def test_a_marker_with_a_name_that_is_none_is_refused_in_one_line(
    run: Run, fixture: str, marker: str, said: str
) -> None:
    result = run(f"""
        import pytest

        @pytest.mark.raft_cluster({marker})
        def test_five({fixture}):
            pass
    """)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"for {fixture} the marker raft_cluster takes *{said}"])
    result.stdout.no_fnmatch_line("*TypeError*")
    result.stdout.no_fnmatch_line("*plugin.py*")


@pytest.mark.parametrize(
    ("fixture", "marker", "said"),
    [
        ("raft_cluster", 'raft_cluster(settings=["flsh=none"])', "there is no setting 'flsh'; did you mean flush?"),
        (
            "kafka_cluster",
            'kafka_cluster(settings={"flsh": "none"})',
            "flsh is no broker setting * Did you mean flush?",
        ),
        ("rocketmq_cluster", 'rocketmq_cluster(properties={"flushDiskTyp": "x"})', "*Did you mean flushDiskType?"),
    ],
)
def test_settings_that_a_cluster_refuses_are_an_error_of_one_line(
    run: Run, fixture: str, marker: str, said: str
) -> None:
    result = run(f"""
        import pytest

        @pytest.mark.{marker}
        def test_it({fixture}):
            pass
    """)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])
    result.stdout.no_fnmatch_line("*plugin.py*")
    result.stdout.no_fnmatch_line("*--set*")
    result.stdout.no_fnmatch_line("*another exception*")


def test_a_marker_without_names_is_refused(run: Run) -> None:
    result = run("""
        import pytest

        @pytest.mark.raft_cluster(5)
        def test_five(raft_cluster):
            pass
    """)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*raft_cluster takes names only, as in nodes=5: not 5 alone*"])


def test_code_under_test_needs_addresses_alone(run: Run) -> None:
    run("""
        import asyncio
        import trio
        from raft import aio, client, sync

        def test_plain(raft_cluster):
            with sync.Client(raft_cluster.addresses, raft_cluster.cluster_id, secret=raft_cluster.secret) as log:
                log.append([b"x"])

        def test_asyncio(raft_cluster):
            async def main():
                async with aio.Client(raft_cluster.addresses, raft_cluster.cluster_id, secret=raft_cluster.secret) as log:
                    await log.append([b"x"])
                    await asyncio.to_thread(raft_cluster.kill, raft_cluster.wait_for_leader())
                    await log.append([b"y"])
            asyncio.run(main())

        def test_trio(raft_cluster):
            async def main():
                async with client.Client(raft_cluster.addresses, raft_cluster.cluster_id, secret=raft_cluster.secret) as log:
                    await log.append([b"x"])
                    await trio.to_thread.run_sync(raft_cluster.wait_for_leader)
            trio.run(main)
    """).assert_outcomes(passed=3)


@pytest.mark.cluster
def test_processes_can_be_killed(run: Run) -> None:
    result = run(PLAIN.replace("raft_cluster", "raft_processes"), "-rP")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*nothing acknowledged was lost"])


def test_the_plugin_costs_nothing_before_it_is_used() -> None:
    code = "import sys, jepsen_like.testing.plugin; print([name for name in ('trio', 'attrs', 'raft') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_installed_project_brings_the_plugin() -> None:
    entry_points = settings()["project"]["entry-points"]["pytest11"]
    assert [importlib.import_module(module).raft_cluster for module in entry_points.values()]


def test_nothing_of_a_cluster_stays_on_its_test_which_may_run_again(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest("""
        from jepsen_like.testing.plugin import CLUSTERS, HAS_FAILED, STORIES

        def pytest_runtest_logfinish(nodeid, location):
            pass

        def pytest_sessionfinish(session):
            kept = [key for item in session.items for key in (CLUSTERS, HAS_FAILED, STORIES) if key in item.stash]
            print("kept", len(kept), "of", len(session.items))
    """)
    result = run("""
        def test_right(raft_cluster):
            assert raft_cluster.leader()

        def test_wrong(raft_cluster):
            assert raft_cluster.leader() == 7
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*kept 0 of 2*"])
