"""Turns what clients of any Kafka saw into rows of the model `kafka`: Jepsen's workload for Kafka, or records one a line.

    send, poll, txn     [[:send k v] [:poll] ...] -> ok [[:send k [offset v]] [:poll {k [[offset v] ...]}] ...]
    assign, subscribe   [k ...]: the process has these keys from now on, and no others

    {"type": "produced", "producer": "p", "topic": "t", "partition": 0, "offset": 7, "value": "v"}
    {"type": "delivered", "consumer": "c", "group": "g", "topic": "t", "partition": 0, "offset": 7, "value": "v"}
    {"type": "committed", "consumer": "c", "group": "g", "topic": "t", "partition": 0, "offset": 8}

A key of Jepsen's is one partition. `produced` may have an `outcome` of ok, fail or info, `began`, and no `offset`; `group` may be
missing, and any line may have a `time`. Times are nanoseconds. The order of the lines is the order in which clients learned of things.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.check.jepsen_maps import OUTCOMES, TOO_DEEP, BadOperation, MapAttempt, Names, attempts
from jepsen_like.check.map_files import Event
from jepsen_like.checker.edn_values import EdnSet, bare, name_of, quote
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

PLACED_BELOW: Final = 2**61
"""Offsets end below this."""
LISTS: Final = {"send": Action.SEND, "poll": Action.POLL, "txn": Action.CALL}
TAKES: Final = {"assign": Action.ASSIGN, "subscribe": Action.ASSIGN}
NOTHING: Final = {"crash": Action.CALL, "debug-topic-partitions": Action.CALL}
"""The other operations of Jepsen's clients; they tell nothing about records."""
SAID: Final[Mapping[str, Action]] = {"produced": Action.SEND, "delivered": Action.POLL, "committed": Action.COMMIT}
WHO: Final = {"produced": "producer", "delivered": "consumer", "committed": "consumer"}


def kafka_operations(events: Iterable[Event], path: Path, names: Names) -> Iterator[Op]:
    """Returns the rows that maps or lines describe. Raises `UnreadableHistory` for what is neither."""
    events = iter(events)
    first = next(events, None)
    if first is None:
        return
    events = itertools.chain([first], events)
    try:
        if name_of(first.fields.get("type")) in SAID:
            yield from _of_records(events, names)
        else:
            reader = _Workload(names)
            for attempt in attempts(_of_clients(events), path, {**LISTS, **TAKES, **NOTHING}, "workload for Kafka"):
                yield from reader(attempt)
    except BadOperation as error:
        raise UnreadableHistory(path, str(error)) from error
    except RecursionError as error:
        raise UnreadableHistory(path, TOO_DEEP) from error


def _of_clients(events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        if not {"f", "process"} <= set(event.fields):
            kinds = ", ".join(SAID)
            raise BadOperation(event.place, f"neither an operation with f and process, nor a type of {kinds}")
        yield event


# -------------------------------------------------------------------- Jepsen's workload


class _Workload:
    """The operations of Jepsen's workload, and the partitions that each process has or had."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._transactions = 0
        self._touched: dict[int, dict[int, None]] = {}
        self._subscribed: set[int] = set()

    def __call__(self, one: MapAttempt) -> Iterator[Op]:
        if one.f in TAKES:
            yield from self._take(one)
        elif one.f in LISTS:
            yield from self._transaction(one)

    def _take(self, one: MapAttempt) -> Iterator[Op]:
        if one.outcome is Outcome.FAIL:
            return
        kept = {self._names.element(key) for key in _elements(one, one.value, "a list of keys")}
        (self._subscribed.add if one.f == "subscribe" else self._subscribed.discard)(one.process)
        touched = self._touched.get(one.process, {})
        for partition in [key for key in touched if key not in kept]:
            del touched[partition]
            yield Op(**{**one.op(Action.REVOKE), "type": Outcome.OK}, object=partition)

    def _transaction(self, one: MapAttempt) -> Iterator[Op]:
        number, self._transactions = self._transactions, self._transactions + 1
        moved = {self._names.element(key) for each in _moves(one) for key in _elements(one, each, "a list of keys")}
        came_back = one.answered if one.answered is not None else one.asked
        for part in _elements(one, came_back, "a list of sends and polls"):
            step = bare(part)
            kind = name_of(step[0]) if isinstance(step, list | tuple) and step else None
            if kind == "send" and len(step) == 3:
                yield self._send(one, number, step)
            elif kind == "poll" and len(step) <= 2:
                yield from self._poll(one, number, step, moved)
            else:
                raise one.refuse(f"[:send key value] or [:poll] expected, not {quote(part)}")

    def _send(self, one: MapAttempt, number: int, step: Any) -> Op:
        _, key, sent = step
        pair = bare(sent)
        # A value that was asked for may itself be a vector; one that came back is [offset value].
        placed = one.answered is not None and isinstance(pair, list | tuple) and len(pair) == 2
        offset, value = pair if placed else (None, sent)
        return self._row(one, Action.SEND, number, key, offset, value)

    def _poll(self, one: MapAttempt, number: int, step: Any, moved: set[int]) -> Iterator[Op]:
        got = bare(step[1]) if len(step) == 2 else None
        if got is None:
            return
        if not isinstance(got, dict):
            raise one.refuse(f"a poll of {{key [[offset value] ...]}} expected, not {quote(got)}")
        for key, pairs in got.items():
            for pair in _elements(one, pairs, "a list of [offset value]"):
                both = bare(pair)
                if not isinstance(both, list | tuple) or len(both) != 2:
                    raise one.refuse(f"[offset value] expected, not {quote(pair)}")
                row = self._row(one, Action.POLL, number, key, *both)
                yield attrs.evolve(row, seen=1) if row.object in moved else row

    def _row(self, one: MapAttempt, action: Action, number: int, key: Any, offset: Any, value: Any) -> Op:
        partition = self._names.element(key)
        self._touched.setdefault(one.process, {})[partition] = None
        if offset is not None and not _is_offset(offset):
            raise one.refuse(f"an offset expected, not {quote(offset)}")
        return Op(
            **one.op(action, object=partition),
            a=self._names.element(value),
            offset=NONE if offset is None else offset,
            epoch=number,
            node=1 if action is Action.POLL and one.process in self._subscribed else NONE,
        )


def _moves(one: MapAttempt) -> Iterator[Any]:
    """Returns the keys of each rebalance during a transaction."""
    for move in _elements(one, one.end.get("rebalance-log"), "a rebalance-log of maps"):
        found = bare(move)
        if isinstance(found, dict):
            yield found.get("keys")


def _elements(one: MapAttempt, value: Any, what: str) -> tuple[Any, ...]:
    value = bare(value)
    if value is None:
        return ()
    if not isinstance(value, list | tuple | EdnSet):
        raise one.refuse(f"{what} expected, not {quote(value)}")
    return tuple(value)


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < PLACED_BELOW


# -------------------------------------------------------------------- records, one a line


def _of_records(events: Iterable[Event], names: Names) -> Iterator[Op]:
    now = -1
    for event in events:
        fields = event.fields
        kind = name_of(fields.get("type"))
        if kind not in SAID:
            raise BadOperation(event.place, f"type is {quote(kind)}, not {', '.join(SAID)}")
        time = fields.get("time")
        now = max(now + 1, time if isinstance(time, int) else 0)
        began = fields.get("began", 0 if kind == "produced" else now)
        if not _is_offset(began) or began > now:
            raise BadOperation(event.place, f"began is {quote(began)}, which is no moment before its time {now}")
        outcome = OUTCOMES.get(str(name_of(fields.get("outcome", "ok"))))
        if outcome is None or (kind != "produced" and outcome is not Outcome.OK):
            raise BadOperation(event.place, f"outcome is {quote(fields.get('outcome'))}; produced has ok, fail or info")
        offset = fields.get("offset")
        if not _is_offset(offset) and (kind != "produced" or offset is not None):
            raise BadOperation(event.place, f"offset is {quote(offset)}")
        group = names.of(fields.get("group"))
        if kind == "committed" and group == NONE:
            raise BadOperation(event.place, "committed without a group")
        if kind != "committed" and "value" not in fields:
            raise BadOperation(event.place, f"{kind} without a value")
        yield Op(
            f=SAID[kind],
            type=outcome,
            err=ErrorCode.NONE if outcome is Outcome.OK else ErrorCode.OTHER,
            object=_partition(event, names),
            process=names.process(fields.get(WHO[kind], group if kind == "committed" else None)),
            a=group if kind == "committed" else names.element(fields["value"]),
            b=group if kind == "delivered" else NONE,
            offset=NONE if offset is None else offset,
            node=1 if kind == "delivered" and group != NONE else NONE,
            t_inv=began,
            t_ret=NEVER if outcome is Outcome.INFO else now,
        )


def _partition(event: Event, names: Names) -> int:
    topic, partition = event.fields.get("topic"), event.fields.get("partition", 0)
    if topic is None:
        raise BadOperation(event.place, "no topic")
    return names.element(f"{topic}-{partition}")
