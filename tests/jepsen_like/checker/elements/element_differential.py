"""Queues of elements, sets and keys: the checker against the definitions, on random small histories read as they lie in files."""

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jepsen_like.check.inputs import as_run
from jepsen_like.check.jepsen_maps import Names, operations
from jepsen_like.check.map_files import read_events
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.elements.tasks import findings_of
from jepsen_like.checker.log.explain import check_logs
from jepsen_like.checker.register.explain import check_registers
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import Engine, Findings, Model, Violation
from jepsen_like.history.ops import NONE
from tests.jepsen_like.checker import oracle
from tests.jepsen_like.checker.elements import element_oracle
from tests.jepsen_like.checker.elements.small_elements import (
    FORMS,
    MAKERS,
    History,
    as_rows,
    as_text,
    element_map,
    order_events,
    rows_of,
)
from tests.jepsen_like.checker.small_histories import FINAL, log_history, overlap, register_history
from tests.jepsen_like.checker.tally import Tally

TOGETHER = (20, 1, 1)
"""Objects in one history, in turn."""
WHOLE_CHECKS = 0.02
"""So many of the histories of one object go through a run directory, too; all others do."""
SUFFIX = {"jsonl": ".jsonl", "json": "", "edn": ".edn", "edn vector": "", "txt": ".txt"}


def _register(history: History) -> bool:
    return oracle.linearizable(history, oracle.register, None)


def _log(history: History) -> bool:
    return oracle.linearizable(history, oracle.log, ())


TRUTHS: dict[Model, Callable[[History], bool]] = {
    Model.UNORDERED_QUEUE: element_oracle.unordered_queue,
    Model.FIFO_QUEUE: element_oracle.fifo_queue,
    Model.TOTAL_QUEUE: element_oracle.total_queue,
    Model.SET: element_oracle.eventual_set,
    Model.LINEARIZABLE_SET: element_oracle.linearizable_set,
    Model.KEY_VALUE: element_oracle.key_value,
    Model.REGISTER: _register,
    Model.LOG: _log,
}


def make_history(rng: random.Random, model: Model) -> History:
    """Returns a history of the model, as far as operation maps can carry it."""
    if model is Model.REGISTER:
        return [_of_register(one) for one in register_history(rng)]
    if model is Model.LOG:
        return [each for one in log_history(rng) if one[2] < FINAL for each in _of_log(one)]
    return MAKERS[model](rng, model)


def _of_register(one: tuple[Any, ...]) -> tuple[Any, ...]:
    what, *rest = one
    return (
        "read" if what == "noswap" else what,
        *rest[:3],
        *(9 if each is None and what in ("write", "swap") else each for each in rest[3:]),
    )


def _of_log(one: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    what, known, start, end, *arguments = one
    if what != "append":
        yield (what, known, start, end, *arguments[:2]) if what == "get" else one
        return
    for at, value in enumerate(arguments[0]):
        yield what, known, start, end, (value,), None if arguments[1] is None else arguments[1] + at, None


def _register_map(one: tuple[Any, ...]) -> tuple[str, Any, Any, Any]:
    what, _, _, _, *arguments = one
    match what:
        case "read":
            return what, None, arguments[0], "refused"
        case "write":
            return what, arguments[0], arguments[0], "refused"
        case "swap":
            return "cas", arguments, arguments, "refused"
        case _:
            return "cas", [arguments[0], 79], None, None


def _log_map(one: tuple[Any, ...]) -> tuple[str, Any, Any, Any]:
    what, _, _, _, *arguments = one
    match what:
        case "append":
            return what, arguments[0][0], [arguments[1], arguments[0][0]], "refused"
        case "get":
            return "read", arguments[0], arguments, "refused"
        case _:
            return "tail", None, arguments[0], "refused"


MAPS = {Model.REGISTER: _register_map, Model.LOG: _log_map}


def judge_histories(
    histories: Sequence[History], model: Model, form: str, rng: random.Random
) -> tuple[Findings, list[History]]:
    """Returns the findings of the checker, and the histories in the form that it got."""
    if form == "columns":
        rows = Columns.of_ops(as_rows(histories))
        return findings_of(rows, model, SearchBounds()), list(histories)
    both = [order_events(history, rng) for history in histories]
    moved, events = [one for one, _ in both], [some for _, some in both]
    keyed = len(histories) > 1 or model is Model.KEY_VALUE
    text = as_text(moved, events, form, rng, MAPS.get(model, element_map), keyed=keyed)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"history{SUFFIX[form]}"
        path.write_text(text)
        if keyed or rng.random() < WHOLE_CHECKS:
            with as_run(path, model, Names()) as run:
                return check_run(run, model, Engine.LOCAL, limits=Limits(search=SearchBounds())).findings, moved
        rows = Columns.of_ops(rows_of(operations(read_events(path), model, path)))
    match model:
        case Model.LOG:
            return check_logs([rows]), moved
        case Model.REGISTER:
            return check_registers(rows), moved
        case _:
            return findings_of(rows, model, SearchBounds()), moved


def compare_histories(model: Model, count: int, seed: int) -> Tally:
    """Compare `count` histories of one model."""
    rng = random.Random(seed)
    total = Tally()
    forms = FORMS[1:] if model in MAPS else FORMS
    for together in itertools.cycle((1,) if model is Model.LOG else TOGETHER):
        if total.histories >= count:
            return total
        histories = [make_history(rng, model) for _ in range(min(together, count - total.histories))]
        findings, histories = judge_histories(histories, model, rng.choice(forms), rng)
        undecided = {one.object for one in findings.undecided if one.object != NONE}
        for number, history in enumerate(histories):
            valid = None if number in undecided else number not in findings.violated
            mine = tuple(one for one in findings.violations if one.object == number)
            total = total.plus(_tally(history, valid, TRUTHS[model](history), mine))
    return total


def _tally(history: History, valid: bool | None, truth: bool, explained: tuple[Violation, ...]) -> Tally:
    differences = []
    if valid is not None and valid != truth:
        said = explained[0] if explained else ""
        differences.append(f"checker returns {valid}, definition requires {truth}: {history} {said}")
    if valid and explained:
        differences.append(f"explained, but valid: {explained[0]}")
    written = [one[4] for one in history if one[0] in ("enqueue", "add", "append", "write", "swap")]
    return Tally(
        histories=1,
        invalid=not truth,
        overlapping=overlap(history) >= 3,
        unknown=any(one[1] is False for one in history),
        repeated=len(set(written)) < len(written),
        undecided=valid is None,
        witnesses=len(explained),
        differences=tuple(differences),
    )
