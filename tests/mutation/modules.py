"""The modules that are mutated, each with its quick tests: those that a programmer would run before the long ones."""

import importlib
from collections.abc import Callable, Mapping, Sequence

import attrs

RAFT_SEEDS_QUICK = 8
RAFT_SEEDS = 60
ROCKETMQ_SEEDS = 60
HISTORIES_QUICK = 150
LOG_HISTORIES = 1500
REGISTER_HISTORIES = 6000
PLANTED_OPERATIONS = 2000
DIFFERENTIAL_SEED = 11


@attrs.frozen(kw_only=True)
class Subject:
    """A module, or some functions of it, with its tests (paths for pytest) and oracles, quickest first.

    An oracle returns a sentence about what it found, or None.
    """

    module: str
    quick: Sequence[Callable[[], str | None]]
    """Tried before the tests: without a test runner around them they kill most mutations in a moment."""
    tests: Sequence[str]
    oracles: Sequence[Callable[[], str | None]]
    functions: Sequence[str] = ()
    seconds_max: float = 60.0
    """The processor time of one mutation, tests and oracles together."""


def golden_scripts() -> str | None:
    """The first conversation with the core that does not go as reviewed."""
    from tests.raft.conversation import SCRIPTS, renew

    for path in sorted(SCRIPTS.glob("*.txt")):
        script = path.read_text()
        if renew(script) != script:
            return path.stem
    return None


def some_seeds() -> str | None:
    """The first violation in a few simulated clusters."""
    return _first_violation(range(RAFT_SEEDS_QUICK))


def more_seeds() -> str | None:
    """The same in more of them."""
    return _first_violation(range(RAFT_SEEDS_QUICK, RAFT_SEEDS))


def _first_violation(seeds: range) -> str | None:
    from jepsen_like.simulation.raft.model import RAFT

    for seed in seeds:
        result = RAFT.play(seed)
        if result.violations:
            return f"seed {seed}: {result.violations[0]}"
    return None


def few_small_logs() -> str | None:
    """A few of the small histories."""
    return _first_difference("log", HISTORIES_QUICK)


def few_small_registers() -> str | None:
    """A few of the small histories."""
    return _first_difference("register", HISTORIES_QUICK)


def small_logs() -> str | None:
    """The first small history of a log on which the checker and the definition differ."""
    return _first_difference("log", LOG_HISTORIES)


def small_registers() -> str | None:
    """The same for registers."""
    return _first_difference("register", REGISTER_HISTORIES)


def planted_logs() -> str | None:
    """The first planted violation of a log that the checker does not find, or not rightly."""
    return _find_misjudged("log")


def planted_registers() -> str | None:
    """The same for registers."""
    return _find_misjudged("register")


def _find_misjudged(model: str) -> str | None:
    from jepsen_like.checker.verdict import Model
    from tests.jepsen_like.checker.plants_found import first_misjudged

    return first_misjudged(Model(model), PLANTED_OPERATIONS)[0]


def _first_difference(model: str, count: int) -> str | None:
    from jepsen_like.checker.verdict import Model
    from tests.jepsen_like.checker.differential import compare_histories

    tally = compare_histories(Model(model), count, DIFFERENTIAL_SEED)
    if tally.undecided:
        return f"{tally.undecided} histories were not decided"
    return tally.differences[0] if tally.differences else None


def rocketmq_scripts() -> str | None:
    """The first conversation with copies of a commit log that does not go as reviewed."""
    from tests.rocketmq_compat.replication.conversation import SCRIPTS, renew

    for path in sorted(SCRIPTS.glob("*.txt")):
        script = path.read_text()
        if renew(script) != script:
            return path.stem
    return None


CONSUMER_TESTS: Mapping[str, str] = {
    "delays": "test_delays",
    "groups": "test_topics",
    "locks": "test_locks",
    "offsets": "test_offsets",
    "registry": "test_registry_machine",
    "retry": "test_retry",
    "subscriptions": "test_subscriptions",
    "topics": "test_topics",
    "waiting": "test_waiting",
}
"""The modules of `rocketmq_compat.consumers`, and the tests of each."""


def rocketmq_consumer_scripts() -> str | None:
    """The first conversation with the registry of clients and the queue locks that does not go as reviewed. Loads the other modules, too."""
    from tests.rocketmq_compat.consumers.conversation import SCRIPTS, renew

    for name in CONSUMER_TESTS:
        importlib.import_module(f"rocketmq_compat.consumers.{name}")
    for path in sorted(SCRIPTS.glob("*.txt")):
        script = path.read_text()
        if renew(script) != script:
            return path.stem
    return None


def rocketmq_seeds() -> str | None:
    """The first violation in a few simulated broker groups."""
    from jepsen_like.simulation.rocketmq.model import ROCKETMQ

    for seed in range(ROCKETMQ_SEEDS):
        result = ROCKETMQ.play(seed)
        if result.violations:
            return f"seed {seed}: {result.violations[0]}"
    return None


RAFT_TESTS = ("tests/raft/test_rules.py", "tests/raft/test_log_view.py", "tests/raft/test_membership.py")
CHECKER_TESTS = "tests/jepsen_like/checker"
CHECKER_SECONDS_MAX = 15.0
"""Several times what the scans' tests need; a scan that does not end takes all of it."""

SUBJECTS: Sequence[Subject] = (
    Subject(module="raft.quorum", quick=[golden_scripts, some_seeds], tests=RAFT_TESTS, oracles=[more_seeds]),
    Subject(module="raft.log_view", quick=[golden_scripts, some_seeds], tests=RAFT_TESTS, oracles=[more_seeds]),
    Subject(module="raft.progress", quick=[golden_scripts, some_seeds], tests=RAFT_TESTS, oracles=[more_seeds]),
    Subject(module="raft.membership", quick=[golden_scripts, some_seeds], tests=RAFT_TESTS, oracles=[more_seeds]),
    Subject(module="raft.staging", quick=[golden_scripts, some_seeds], tests=RAFT_TESTS, oracles=[more_seeds]),
    Subject(
        module="raft.core",
        quick=[golden_scripts, some_seeds],
        tests=RAFT_TESTS,
        oracles=[more_seeds],
        functions=[
            f"RaftCore.{name}"
            for name in (
                # The commit rule: what counts, when, and which answers follow.
                "_on_persisted",
                "_on_accepted",
                "_commit_by_majority",
                "_commit",
                "_answer_committed",
                # The conflict rule: what is replaced, what is acknowledged, and how the place of agreement is found.
                "_on_append_entries",
                "_append",
                "_put",
                "_persist",
                "_write_covering",
                "_on_rejected",
                # Resets to a snapshot: which follower, when, and what counts afterwards.
                "_on_install_snapshot",
                "_reset_to_snapshot",
                "_discount",
                "_accept",
                "_probe",
                "_send_snapshot_part",
                "_on_snapshot_received",
            )
        ],
    ),
    *(
        Subject(
            module=f"rocketmq_compat.replication.{name}",
            quick=[rocketmq_scripts],
            tests=[f"tests/rocketmq_compat/replication/{each}.py" for each in ("test_rules", "test_roles")],
            oracles=[rocketmq_seeds],
        )
        for name in ("acks", "copy_log", "epochs", "master", "slave")
    ),
    *(
        Subject(
            module=f"rocketmq_compat.consumers.{name}",
            quick=[rocketmq_consumer_scripts],
            tests=[f"tests/rocketmq_compat/consumers/{test}.py"],
            oracles=[],
        )
        for name, test in CONSUMER_TESTS.items()
    ),
    Subject(
        module="jepsen_like.checker.log.scan",
        quick=[few_small_logs],
        tests=[f"{CHECKER_TESTS}/{name}.py" for name in ("log/test_scan", "log/test_explain", "log/test_retention")],
        oracles=[planted_logs, small_logs],
        seconds_max=CHECKER_SECONDS_MAX,
    ),
    Subject(
        module="jepsen_like.checker.register.scan",
        quick=[few_small_registers],
        tests=[f"{CHECKER_TESTS}/register/test_scan.py", f"{CHECKER_TESTS}/register/test_explain.py"],
        oracles=[planted_registers, small_registers],
        seconds_max=CHECKER_SECONDS_MAX,
    ),
)


def by_module(name: str) -> Subject:
    """The subject with this dotted name or the last part of it; `KeyError` if there is none."""
    for subject in SUBJECTS:
        if name in (subject.module, subject.module.rpartition(".")[2]):
            return subject
    raise KeyError(name)
