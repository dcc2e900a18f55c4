"""A replicated log: groups of nodes that keep one log by Raft, their clients, and state machines on top of it.

    import trio
    from raft import Client, RaftGroup

    async def main() -> None:
        async with (
            RaftGroup.open(node_id=1, members={1: ("127.0.0.1", 4001)}, directory="data"),
            Client(["127.0.0.1:4001"], "quorumlog") as client,
        ):
            appended = await client.append([b"first", b"second"])  # returns when a majority has both on disk
            found = await client.read(appended.base_offset)
            print([record for batch in found.batches for record in batch.records()])

    trio.run(main)

- `RaftGroup.open` is a node as a block of your program, `Client` a client of a group. Both are for Trio; `raft.aio`
  and `raft.sync` have the same two for asyncio and plain Python.
- Calls return `Appended`, `Records` (of `RecordBatch`), `Tail` and `Applied`. They raise a `RaftError`, whose
  `definite` states whether the operation certainly had no effect; after `OutcomeUnknown` it may have.
- `change_members` takes an `AddLearner`, `Promote`, `Remove` or `ChangeVoters`; `transfer_leadership` has another node
  lead. Both are methods of nodes and clients.
- `NodeSettings` holds the settings of a node, `RaftConfig` those of the protocol. `parse_settings` reads both from
  `name=value`.
- A cluster with a `Secret` (`make_secret`, `read_secret`) serves members and clients that know it, and no others.
- A `StateMachine` gets the committed commands in order; one with snapshots (`SnapshotMachine`) allows its log to be
  trimmed. `RegisterMachine` is the default.
- `RaftGroup.subscribe` calls a `Subscriber` with all that is `Delivered`: entries, leaders, resets. `notify` gets
  each `Notice`.
- `RaftCore` is the decider alone, without I/O.
"""

TYPE_CHECKING = False  # for type checkers it is True; importing `typing` would take longer than all else here

__distribution__ = "quorumlog"

if TYPE_CHECKING:
    from raft.addresses import Address
    from raft.client import Attempt, Client, OnAttempt, Unreachable
    from raft.config import RaftConfig
    from raft.core import RaftCore
    from raft.directory import IncompleteDirectory, WrongDirectory, WrongMembers
    from raft.effects import RoleChanged, RoleName
    from raft.errors import (
        Busy,
        InvalidRequest,
        InvalidResult,
        NotAdmitted,
        NotAllowed,
        NotLeader,
        OutcomeUnknown,
        ProtocolError,
        RaftError,
        RecordsTrimmed,
        ShuttingDown,
        SnapshotDiverged,
        StateMachineFailed,
        StorageFull,
        WrongStateMachine,
    )
    from raft.group import RaftGroup
    from raft.membership import AddLearner, ChangeVoters, Promote, Remove
    from raft.model import EntryKind, Position
    from raft.net.certificates import Certificates, ClientCertificates, TlsFiles, UnusableFiles
    from raft.notices import (
        ConnectionClosed,
        ConnectionRefused,
        DiskStalled,
        FrameTooLarge,
        InvariantBroken,
        LinkDown,
        LinkRefused,
        LinkUp,
        LogRepaired,
        LogSetAside,
        LogTrimmed,
        LongTurn,
        NoSpaceLeft,
        Notice,
        Notify,
        SnapshotInstalled,
        SnapshotTooLarge,
        StandingLearned,
        event_of,
    )
    from raft.register import RegisterMachine
    from raft.results import Appended, Applied, RecordBatch, Records, Tail
    from raft.secret_file import UnusableSecret, make_secret, read_secret
    from raft.settings import NodeSettings, WrongSetting, known_settings, parse_settings
    from raft.state_machine import CheckedMachine, SnapshotMachine, StateMachine
    from raft.subscription import CommittedEntry, Delivered, LeaderChanged, ResetToSnapshot, Subscriber, Subscription
    from raft.trust import Secret, SecretSource

__all__ = [
    "AddLearner",
    "Address",
    "Appended",
    "Applied",
    "Attempt",
    "Busy",
    "Certificates",
    "ChangeVoters",
    "CheckedMachine",
    "Client",
    "ClientCertificates",
    "CommittedEntry",
    "ConnectionClosed",
    "ConnectionRefused",
    "Delivered",
    "DiskStalled",
    "EntryKind",
    "FrameTooLarge",
    "IncompleteDirectory",
    "InvalidRequest",
    "InvalidResult",
    "InvariantBroken",
    "LeaderChanged",
    "LinkDown",
    "LinkRefused",
    "LinkUp",
    "LogRepaired",
    "LogSetAside",
    "LogTrimmed",
    "LongTurn",
    "NoSpaceLeft",
    "NodeSettings",
    "NotAdmitted",
    "NotAllowed",
    "NotLeader",
    "Notice",
    "Notify",
    "OnAttempt",
    "OutcomeUnknown",
    "Position",
    "Promote",
    "ProtocolError",
    "RaftConfig",
    "RaftCore",
    "RaftError",
    "RaftGroup",
    "RecordBatch",
    "Records",
    "RecordsTrimmed",
    "RegisterMachine",
    "Remove",
    "ResetToSnapshot",
    "RoleChanged",
    "RoleName",
    "Secret",
    "SecretSource",
    "ShuttingDown",
    "SnapshotDiverged",
    "SnapshotInstalled",
    "SnapshotMachine",
    "SnapshotTooLarge",
    "StandingLearned",
    "StateMachine",
    "StateMachineFailed",
    "StorageFull",
    "Subscriber",
    "Subscription",
    "Tail",
    "TlsFiles",
    "Unreachable",
    "UnusableFiles",
    "UnusableSecret",
    "WrongDirectory",
    "WrongMembers",
    "WrongSetting",
    "WrongStateMachine",
    "event_of",
    "known_settings",
    "make_secret",
    "parse_settings",
    "read_secret",
]

_MODULES = {
    "raft.addresses": "Address",
    "raft.client": "Attempt Client OnAttempt Unreachable",
    "raft.config": "RaftConfig",
    "raft.core": "RaftCore",
    "raft.directory": "IncompleteDirectory WrongDirectory WrongMembers",
    "raft.effects": "RoleChanged RoleName",
    "raft.errors": (
        "Busy InvalidRequest InvalidResult NotAdmitted NotAllowed NotLeader OutcomeUnknown ProtocolError RaftError RecordsTrimmed "
        "ShuttingDown SnapshotDiverged StateMachineFailed StorageFull WrongStateMachine"
    ),
    "raft.group": "RaftGroup",
    "raft.membership": "AddLearner ChangeVoters Promote Remove",
    "raft.model": "EntryKind Position",
    "raft.notices": (
        "ConnectionClosed ConnectionRefused DiskStalled FrameTooLarge InvariantBroken LinkDown LinkRefused LinkUp "
        "LogRepaired LogSetAside LogTrimmed LongTurn NoSpaceLeft Notice Notify SnapshotInstalled SnapshotTooLarge "
        "StandingLearned event_of"
    ),
    "raft.net.certificates": "Certificates ClientCertificates TlsFiles UnusableFiles",
    "raft.register": "RegisterMachine",
    "raft.results": "Applied Appended RecordBatch Records Tail",
    "raft.secret_file": "UnusableSecret make_secret read_secret",
    "raft.settings": "NodeSettings WrongSetting known_settings parse_settings",
    "raft.state_machine": "CheckedMachine SnapshotMachine StateMachine",
    "raft.subscription": "CommittedEntry Delivered LeaderChanged ResetToSnapshot Subscriber Subscription",
    "raft.trust": "Secret SecretSource",
}
"""The names of each module, which is imported when one of them is asked for."""

if not TYPE_CHECKING:
    from log.face import lazy

    __getattr__, __dir__ = lazy(globals())
