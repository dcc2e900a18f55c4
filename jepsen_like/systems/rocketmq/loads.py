"""The load of each workload: who sends, who consumes, and what the check of that expects."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

import attrs

from jepsen_like.checker.verdict import Model
from jepsen_like.port.port import TlsPaths
from jepsen_like.port.wires import Address
from jepsen_like.systems.rocketmq.client_plan import GROUP, MEMBER, SENDER, RocketClientPlan
from jepsen_like.systems.rocketmq.client_settings import CPP_CLIENT, HOLDS, ORDER_WORKLOAD, OWN, PUSHED
from jepsen_like.systems.rocketmq.clients import TOPIC, RocketClients
from jepsen_like.systems.rocketmq.cpp_client_load import CppClientLoad
from jepsen_like.systems.rocketmq.log_workload import PushedProbes, QueueWorkload
from jepsen_like.systems.rocketmq.mode import RocketMode
from jepsen_like.systems.rocketmq.own_client import number_queues
from jepsen_like.systems.rocketmq.own_load import OwnLoad
from jepsen_like.systems.rocketmq.positions import QueueReader
from jepsen_like.systems.rocketmq.processes import name_servers
from jepsen_like.systems.rocketmq.pushed_sink import PushedSink
from jepsen_like.systems.tls_of import certificates_in
from jepsen_like.workload.client_sinks import LogSink
from jepsen_like.workload.load import LoadPlan, RoutedLoad, RunningLoad
from jepsen_like.workload.queue_recorder import QueueRecorder
from jepsen_like.workload.recorder import Recorder

SENDERS: Final = 2
MEMBERS: Final = 2
PROBES_RATE: Final = 20.0
"""Of the clients that probe, next to those that work."""
KEYS: Final = 1 << 12
"""By how much the values of a key are apart; the last key is that of those that probe."""
GROUP_NAME: Final = "readers"


def queue_of(mode: RocketMode, workload: str) -> Mapping[str, Any]:
    """Returns the entry of test.json about the queue of a run, if it is one."""
    if workload not in PUSHED:
        return {}
    is_orderly = workload == ORDER_WORKLOAD
    return {
        "queue": {
            "pushed": True,
            "orderly": is_orderly,
            "unlocks_early": mode.client_of(Model.QUEUE) == CPP_CLIENT,
            "keys": KEYS if is_orderly else 0,
            "keys_move": not mode.is_pinned,
            "partitions": {
                str(obj): f"{scope}/{obj % mode.queues}"
                for number, scope in enumerate(mode.division.scopes)
                for obj in mode.division.objects(number, mode.queues)
            },
            "groups": {str(GROUP): GROUP_NAME},
        }
    }


@attrs.frozen(kw_only=True)
class Connecting:
    """Tells the clients of a run how they connect."""

    tls: TlsPaths | None = None
    clients: type[RocketClients] = RocketClients


def load_of(
    mode: RocketMode,
    workload: str,
    recorder: Recorder,
    addresses: Mapping[int, Address],
    plan: LoadPlan,
    connecting: Connecting,
) -> RunningLoad:
    """The load of a workload by the client of the mode."""
    client = mode.client_of(Model.QUEUE if workload in PUSHED else Model.LOG)
    brokers = {node: address for node, address in addresses.items() if node <= mode.nodes}
    clients, groups = connecting.clients(brokers, certificates_in(connecting.tls)), mode.division.all()
    if client == OWN and workload not in PUSHED:
        return RoutedLoad(QueueWorkload(mode.pairs, mode.queues), recorder, clients, plan, groups)
    objects = number_queues(mode.division.scopes, mode.queues)
    base = RocketClientPlan(
        role=SENDER,
        names=name_servers(addresses, mode.nodes),
        topic=TOPIC,
        seed=plan.seed,
        keys=KEYS,
        objects=len(objects),
    )
    senders = list(_senders(base, plan))
    ids = itertools.count(2 * KEYS - 1, KEYS)
    few = LoadPlan(concurrency=1, rate=PROBES_RATE, seed=plan.seed)
    member = attrs.evolve(
        base,
        role=MEMBER,
        group=GROUP,
        group_name=f"{GROUP_NAME}-{plan.seed}",
        is_orderly=workload == ORDER_WORKLOAD,
        holds_ms=float(mode.settings[HOLDS]),
    )
    queues = QueueReader(member.group_name, TOPIC, brokers, groups, mode.queues, connecting.clients.connection)
    if workload not in PUSHED:
        probes = RoutedLoad(QueueWorkload(mode.pairs, mode.queues, ids=ids), recorder, clients, few, groups)
        return CppClientLoad(senders, (), LogSink(recorder), probes, recorder, queues)
    assert isinstance(recorder, QueueRecorder)
    probes = RoutedLoad(PushedProbes(mode.pairs, mode.queues, ids=ids), recorder, clients, few, groups)
    if client == OWN:
        sink = PushedSink(recorder, groups=1)
        return OwnLoad(objects, senders, [member] * MEMBERS, sink, probes, recorder, queues)
    sink = PushedSink(recorder, groups=mode.pairs)
    return CppClientLoad(senders, [member] * MEMBERS, sink, probes, recorder, queues)


def _senders(base: RocketClientPlan, plan: LoadPlan) -> Any:
    workers, first = min(SENDERS, plan.concurrency), 0
    for number in range(workers):
        slots = plan.concurrency // workers + (number < plan.concurrency % workers)
        rate = plan.rate * slots / plan.concurrency
        yield attrs.evolve(base, index=number, workers=workers, slots=slots, first_key=first, rate=rate)
        first += slots
