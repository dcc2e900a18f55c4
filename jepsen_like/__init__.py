"""Breaks clusters on purpose, records what their clients saw, and decides whether a promise was broken.

    from jepsen_like import LocalCluster

    with LocalCluster.open() as cluster, cluster.client() as client:
        client.append([b"order 1"])
        cluster.kill(cluster.wait_for_leader())
        client.append([b"order 2"])
        print(cluster.check())  # all that was acknowledged is there

- **Tests.** The fixtures of the pytest plugin lend `LocalCluster`, `ProcessCluster`, `LocalKafka`, `ProcessKafka`,
  `LocalRocketMq` and `RocketMqProcesses`, in blocking calls. `jepsen_like.testing` has the same for Trio,
  `jepsen_like.testing.aio` the first two for asyncio. `WaitedTooLong` is raised by what waits; `LedgerVerdict`,
  `KafkaVerdict` and `RocketVerdict` are what `check` returns.
- **Histories.** `HistoryWriter` records an `Op` for each attempt; `check_history` checks a history in a session of
  Spark, and returns a `CheckReport` with its `Verdict`.
- **Models of your own** are classes with `initial` and `step(state, op)`; `op` is a `UserCall`. Values of EDN have
  the types `Keyword`, `Symbol`, `Character`, `EdnList`, `EdnSet`, `EdnMap` and `Tagged`.
- **Systems of your own** implement `System`, with a `Mode` and a `Control`, and are entry points of the group
  `quorumlog.systems` in their package. Their clients come as a `RunningLoad`, for which `RoutedLoad` with a `Workload` and a `ClientPort` is one way.

Histories and what checks them need the extra `check` (`pip install 'quorumlog[check]'`); the clusters for tests need
the base installation.
"""

TYPE_CHECKING = False  # for type checkers it is True; importing `typing` would take longer than all else here

__distribution__ = "quorumlog"

if TYPE_CHECKING:
    from jepsen_like.check.library import CheckReport, check_history
    from jepsen_like.checker.allowance import Allowance
    from jepsen_like.checker.edn_values import Character, EdnList, EdnMap, EdnSet, Keyword, Symbol, Tagged
    from jepsen_like.checker.elements.user_model import UserCall
    from jepsen_like.checker.verdict import Check, Model, Verdict, Violation
    from jepsen_like.history.files import DumpWriter, HistoryWriter, KeepRule, UnreadableHistory
    from jepsen_like.history.ops import NONE, Action, CallOp, ErrorCode, ListOp, Op, Outcome
    from jepsen_like.nemesis.table import KINDS
    from jepsen_like.port.file_damage import LogFiles
    from jepsen_like.port.observations import LogBegins, Observation, OwnEnd, Ready, RoleReported, Served, TurnReported
    from jepsen_like.port.port import (
        Access,
        Control,
        FaultSeen,
        Leadership,
        Member,
        Mode,
        NotServing,
        ProcessPlan,
        Scope,
        System,
        WrongMode,
    )
    from jepsen_like.port.registry import SYSTEMS, system_named
    from jepsen_like.port.scenario import NamedScenario, Shows, Trial
    from jepsen_like.port.wires import Address
    from jepsen_like.testing.faulty import NodeEvent, WaitedTooLong
    from jepsen_like.testing.kafka.ledger import KafkaVerdict
    from jepsen_like.testing.kafka.sync import LocalKafka, ProcessKafka
    from jepsen_like.testing.ledger import LedgerVerdict
    from jepsen_like.testing.rocketmq.ledger import RocketVerdict
    from jepsen_like.testing.rocketmq.producer import SendFailed, SentMessage
    from jepsen_like.testing.rocketmq.sync import LocalRocketMq, RocketMqProcesses
    from jepsen_like.testing.sync import LocalCluster, ProcessCluster
    from jepsen_like.workload.load import (
        ClientPort,
        Ending,
        LeftTheLog,
        LiveConnection,
        LoadPlan,
        NotTheLeader,
        RoutedLoad,
        RunningLoad,
        TryLater,
    )
    from jepsen_like.workload.model import Nonsense, Request, Seen, Workload
    from jepsen_like.workload.payload import decode_value, encode_value, value_ids
    from jepsen_like.workload.recorder import Recorder

__all__ = [
    "KINDS",
    "NONE",
    "SYSTEMS",
    "Access",
    "Action",
    "Address",
    "Allowance",
    "CallOp",
    "Character",
    "Check",
    "CheckReport",
    "ClientPort",
    "Control",
    "DumpWriter",
    "EdnList",
    "EdnMap",
    "EdnSet",
    "Ending",
    "ErrorCode",
    "FaultSeen",
    "HistoryWriter",
    "KafkaVerdict",
    "KeepRule",
    "Keyword",
    "Leadership",
    "LedgerVerdict",
    "LeftTheLog",
    "ListOp",
    "LiveConnection",
    "LoadPlan",
    "LocalCluster",
    "LocalKafka",
    "LocalRocketMq",
    "LogBegins",
    "LogFiles",
    "Member",
    "Mode",
    "Model",
    "NamedScenario",
    "NodeEvent",
    "Nonsense",
    "NotServing",
    "NotTheLeader",
    "Observation",
    "Op",
    "Outcome",
    "OwnEnd",
    "ProcessCluster",
    "ProcessKafka",
    "ProcessPlan",
    "Ready",
    "Recorder",
    "Request",
    "RocketMqProcesses",
    "RocketVerdict",
    "RoleReported",
    "RoutedLoad",
    "RunningLoad",
    "Scope",
    "Seen",
    "SendFailed",
    "SentMessage",
    "Served",
    "Shows",
    "Symbol",
    "System",
    "Tagged",
    "Trial",
    "TryLater",
    "TurnReported",
    "UnreadableHistory",
    "UserCall",
    "Verdict",
    "Violation",
    "WaitedTooLong",
    "Workload",
    "WrongMode",
    "check_history",
    "decode_value",
    "encode_value",
    "system_named",
    "value_ids",
]

_MODULES = {
    "jepsen_like.check.library": "CheckReport check_history",
    "jepsen_like.checker.allowance": "Allowance",
    "jepsen_like.checker.edn_values": "Character EdnList EdnMap EdnSet Keyword Symbol Tagged",
    "jepsen_like.checker.elements.user_model": "UserCall",
    "jepsen_like.checker.verdict": "Check Model Verdict Violation",
    "jepsen_like.history.files": "DumpWriter HistoryWriter KeepRule UnreadableHistory",
    "jepsen_like.history.ops": "NONE Action CallOp ErrorCode ListOp Op Outcome",
    "jepsen_like.nemesis.table": "KINDS",
    "jepsen_like.port.file_damage": "LogFiles",
    "jepsen_like.port.observations": "LogBegins Observation OwnEnd Ready RoleReported Served TurnReported",
    "jepsen_like.port.port": "Access Control FaultSeen Leadership Member Mode NotServing ProcessPlan Scope System WrongMode",
    "jepsen_like.port.registry": "SYSTEMS system_named",
    "jepsen_like.port.scenario": "NamedScenario Shows Trial",
    "jepsen_like.port.wires": "Address",
    "jepsen_like.testing.faulty": "NodeEvent WaitedTooLong",
    "jepsen_like.testing.kafka.ledger": "KafkaVerdict",
    "jepsen_like.testing.kafka.sync": "LocalKafka ProcessKafka",
    "jepsen_like.testing.ledger": "LedgerVerdict",
    "jepsen_like.testing.rocketmq.ledger": "RocketVerdict",
    "jepsen_like.testing.rocketmq.producer": "SendFailed SentMessage",
    "jepsen_like.testing.rocketmq.sync": "LocalRocketMq RocketMqProcesses",
    "jepsen_like.testing.sync": "LocalCluster ProcessCluster",
    "jepsen_like.workload.load": (
        "ClientPort Ending LeftTheLog LiveConnection LoadPlan NotTheLeader RoutedLoad RunningLoad TryLater"
    ),
    "jepsen_like.workload.model": "Nonsense Request Seen Workload",
    "jepsen_like.workload.payload": "decode_value encode_value value_ids",
    "jepsen_like.workload.recorder": "Recorder",
}
"""The names of each module, which is imported when one of them is asked for."""

if not TYPE_CHECKING:
    try:
        from log.face import lazy
    except ImportError:  # another package has taken the name of ours; `installation` reports it
        pass
    else:
        __getattr__, __dir__ = lazy(globals())
