"""A node's data directory: whom it belongs to, and what is made of it when something is missing or damaged."""

import json

import attrs

from log.config import LogConfig
from log.disk import Disk, read_file, replace_file
from log.errors import CorruptLog, ForeignLog
from log.loss import forget_loss, missing_files, set_aside, was_set_aside
from log.segmented_log import LOCK_NAME
from raft.errors import RaftError
from raft.model import NodeId
from raft.settings import NodeSettings
from raft.storage import RaftStorage, log_id_of

IDENTITY_NAME = "identity.json"


@attrs.define
class WrongDirectory(RaftError):
    """The data directory belongs to another node or cluster."""

    directory: str
    owner: str

    def __str__(self) -> str:
        return f"{self.directory} belongs to {self.owner}; give this node a directory of its own"


@attrs.define
class WrongMembers(RaftError):
    """The data directory knows this node as a member of a group of other nodes.

    A majority of fewer nodes, or of other ones, could commit without those that hold what was committed before.
    """

    directory: str
    known: tuple[int, ...]
    given: tuple[int, ...]

    def __str__(self) -> str:
        known, given = (", ".join(map(str, nodes)) for nodes in (self.known, self.given))
        return (
            f"the group of {self.directory} is made of nodes {known}, not of {given}, and has not changed its members"
        )


@attrs.define
class IncompleteDirectory(RaftError):
    """The directory of a group's only member lacks a file without which it would forget what it acknowledged."""

    directory: str
    missing: str

    def __str__(self) -> str:
        return (
            f"{self.directory} was used by a node before, but {self.missing} is missing, and this node is the only member of its "
            "group: no other has what is lost. Restore what is missing"
        )


@attrs.frozen
class Identity:
    """The owner of a data directory; `members` are those with which its group begins.

    They are None if an older version wrote it down, or if this node has joined later.
    """

    cluster_id: str
    node_id: int
    members: tuple[int, ...] | None


def open_storage(disk: Disk, directory: str, identity: Identity, settings: NodeSettings) -> RaftStorage:
    """Returns the log of this node, locked and recovered.

    A new log is durable before the identity is, which in turn is durable before the log holds anything: so a crash at
    any moment of the first start leaves an identity with a log, or no identity and at most an empty log. Where files
    are missing or damaged so that it is not known what the node had promised, and it has peers, all of the log is set
    aside (`log.loss`): the node begins blank, and knows that it had a past (`raft.recall`).

    Raises `WrongDirectory` or `WrongMembers` if it is not this node's. Without peers to learn from, raises
    `IncompleteDirectory` or `CorruptLog` for such a loss. Raises `ForeignLog` for a log of another node or version.
    """
    log_id = log_id_of(identity.cluster_id, NodeId(identity.node_id))
    found = _read_identity(disk, directory)
    if found is not None and (found.cluster_id, found.node_id) != (identity.cluster_id, identity.node_id):
        raise WrongDirectory(directory, f"node {found.node_id} of cluster {found.cluster_id!r}")
    config = LogConfig(segment_bytes_max=settings.segment_bytes_max, reserve_chunk_bytes=settings.reserve_bytes)
    # Without peers, a node cannot fetch what a repair would truncate, nor learn what it has forgotten.
    has_peers = identity.members is None or len(identity.members) > 1
    try:
        storage = _open_whole(disk, directory, config, log_id, has_peers=has_peers, has_identity=found is not None)
    except ForeignLog:
        raise
    except (IncompleteDirectory, CorruptLog) as loss:
        if not has_peers:
            raise
        _set_aside(disk, directory)
        storage = RaftStorage.open(disk, directory, config, log_id=log_id)
        storage.set_aside_for = loss.missing if isinstance(loss, IncompleteDirectory) else str(loss)
    try:
        if found is not None and not storage.has_members:
            _require_same(directory, found, identity)
        if found != identity and not storage.has_members:
            if found is None:
                storage.flush()
            replace_file(disk, directory, IDENTITY_NAME, (json.dumps(attrs.asdict(identity)) + "\n").encode())
        if was_set_aside(disk, directory):
            if storage.has_term:
                forget_loss(disk, directory)
            else:
                storage.was_lost = True
    except BaseException:
        storage.close()
        raise
    return storage


def _open_whole(
    disk: Disk, directory: str, config: LogConfig, log_id: int, *, has_peers: bool, has_identity: bool
) -> RaftStorage:
    """Returns the log if nothing of it is missing.

    One without an identity vouches for itself where the node has peers: its frames name their owner.
    """
    missing = None
    if has_identity or disk.exists(directory):
        missing = missing_files(disk, directory, log_id=log_id)
    if has_identity and missing is not None:
        raise IncompleteDirectory(directory, missing)
    storage = RaftStorage.open(disk, directory, config, log_id=log_id, repair=has_peers)
    if not has_identity and storage.log.end > 0 and (missing is not None or not has_peers):
        storage.close()
        raise IncompleteDirectory(directory, f"the identity of the node (`{IDENTITY_NAME}`)")
    return storage


def _set_aside(disk: Disk, directory: str) -> None:
    lock = disk.lock(f"{directory}/{LOCK_NAME}")
    try:
        set_aside(disk, directory, keep=(IDENTITY_NAME, LOCK_NAME))
    finally:
        lock.release()


def _require_same(directory: str, found: Identity, given: Identity) -> None:
    if given.members is not None and found.members not in (None, given.members):
        raise WrongMembers(directory, found.members or (), given.members or ())


def read_owner(disk: Disk, directory: str, node_id: int) -> Identity:
    """Returns the owner of a directory. Raises `WrongDirectory` if it is none of this node."""
    found = _read_identity(disk, directory)
    if found is None:
        raise WrongDirectory(directory, "no node")
    if found.node_id != node_id:
        raise WrongDirectory(directory, f"node {found.node_id} of cluster {found.cluster_id!r}")
    return found


def _read_identity(disk: Disk, directory: str) -> Identity | None:
    path = f"{directory}/{IDENTITY_NAME}"
    content = read_file(disk, path)
    if content is None:
        return None
    try:
        identity = json.loads(content)
        members = identity.get("members")
        return Identity(
            identity["cluster_id"], identity["node_id"], None if members is None else tuple(map(int, members))
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WrongDirectory(directory, f"a node that this version cannot identify ({path} cannot be read)") from None
