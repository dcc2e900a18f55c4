"""The native client protocol as bytes: requests, replies and the handshake, checked like peer messages (`codec`).

A request carries an id that its reply repeats; a client may have many under way. Records travel as one *batch*
(`record_batch`): the same bytes rest in the log and come back to readers, several batches of one entry end to end.
Replies decode to `results`.

Errors map to the exceptions of `raft.errors` by a code; `definite` is written out, so that a client which does not know
a newer code still knows whether the operation can have happened. The detail of `records_trimmed` is the decimal offset
where the records begin that are left; a STATUS reply contains it as `start_offset`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgpack

from raft import errors
from raft.addresses import is_address
from raft.codec import (
    binary,
    binary_or_view,
    boolean,
    crc_of_data,
    integer,
    kind_of,
    number,
    text,
    unpack,
    unpack_array,
    unpack_array_with_data,
)
from raft.errors import ProtocolError, RaftError
from raft.membership import ADDRESS_LENGTH_MAX, MEMBERS_MAX, AddLearner, Change, ChangeVoters, Promote, Remove
from raft.model import NodeId
from raft.net.decoder import Buffer
from raft.net.framing import HEADER, encode_frame
from raft.record_batch import RECORDS_MAX, count_batch
from raft.results import Appended, Applied, RecordBatch, Records, Tail

HELLO = 1
APPEND = 2
READ = 3
TAIL = 4
APPLY = 5
STATUS = 6
TRUST = 7
CHANGE = 8
HELLO_REPLY = 17
APPENDED = 18
RECORDS = 19
TAIL_REPLY = 20
APPLIED = 21
STATUS_REPLY = 22
TRUST_REPLY = 23
ERROR = 31

HELLO_BYTES_MAX = 4096
"""Until it has been greeted, a client may not send frames above this."""
BATCHES_MAX = 2**20
"""Entries in one RECORDS reply."""
CLUSTER_ID_LENGTH_MAX = 256
NODE_ID_MAX = 2**31 - 1
READ_BYTES_MAX = 2**31 - 1
CLIENT = "client"
PEER = "peer"

_pack_short = msgpack.Packer().pack
"""For what is short and frequent: making a packer takes longer than using it.

It keeps the room that its largest value took.
"""


# -------------------------------------------------------------------- values


class Hello(NamedTuple):
    """The first message of a dialling client (`node_id` 0) or peer.

    A peer adds the address at which others dial it, if it knows one: its answers travel on a connection dialled there.
    """

    cluster_id: str
    role: str
    node_id: int
    address: str = ""


class HelloReply(NamedTuple):
    """The id of the node that answered, and the largest frame body it accepts."""

    node_id: int
    frame_bytes_max: int


class Append(NamedTuple):
    """Append these records; `span`, how many they are, was counted at decoding.

    `crc` is None unless it is known already.
    """

    request_id: int
    records: Buffer
    span: int
    crc: int | None


class Read(NamedTuple):
    """Entries from the one that holds `offset` on."""

    request_id: int
    offset: int
    bytes_max: int


class Apply(NamedTuple):
    """A command, or a query, for the state machine."""

    request_id: int
    command: bytes
    read_only: bool


class ChangeRequest(NamedTuple):
    """A change of the members, or the node that is to lead."""

    request_id: int
    change: Change | NodeId


Reply = Appended | Records | Tail | Applied | dict[str, object] | RaftError


# -------------------------------------------------------------------- handshake


def encode_trust(message: bytes) -> bytes:
    """Returns a TRUST: a dialer's message of `raft.trust`, before its HELLO."""
    return encode_frame(TRUST, message)


def encode_trust_reply(message: bytes) -> bytes:
    """Returns a TRUST_REPLY: the answer to TRUST."""
    return encode_frame(TRUST_REPLY, message)


def decode_trust_reply(message_type: int, body: Buffer) -> bytes:
    """Returns the message in a TRUST_REPLY.

    Raises the error that an ERROR frame carries, `ProtocolError` for anything else.
    """
    if message_type == ERROR:
        raise decode_error(body)[1]
    if message_type != TRUST_REPLY:
        raise ProtocolError(f"this node does not prove that it is of this cluster: message type {message_type}")
    return bytes(body)


def encode_hello(hello: Hello) -> bytes:
    """Returns a HELLO, the first frame of every connection."""
    return encode_frame(HELLO, msgpack.packb(hello if hello.address else hello[:3]))


def decode_hello(message_type: int, body: Buffer) -> Hello:
    """Returns the HELLO in the first frame of a connection. Raises `ProtocolError` if it is any other frame."""
    if message_type != HELLO:
        raise ProtocolError(f"a connection begins with HELLO, not with message type {message_type}")
    values = unpack(body, array_max=4)
    if type(values) is not list or len(values) not in (3, 4):
        raise ProtocolError(f"an array of 3 or 4 is due, not {kind_of(values)}")
    cluster_id, role, node_id, address = (*values, "")[:4]
    if role not in (CLIENT, PEER):
        raise ProtocolError("the role in a HELLO is neither client nor peer")
    at = text(address, "address", ADDRESS_LENGTH_MAX)
    if at and not (role == PEER and is_address(at)):
        raise ProtocolError("the address in a HELLO is not that of a peer, HOST:PORT")
    return Hello(
        text(cluster_id, "cluster_id", CLUSTER_ID_LENGTH_MAX), role, integer(node_id, "node_id", 0, NODE_ID_MAX), at
    )


def encode_hello_reply(reply: HelloReply) -> bytes:
    """Returns a HELLO_REPLY, the answer to the handshake."""
    return encode_frame(HELLO_REPLY, msgpack.packb(reply))


def decode_hello_reply(message_type: int, body: Buffer) -> HelloReply:
    """Returns the answer to the handshake.

    Raises the error that an ERROR frame carries, `ProtocolError` for anything else.
    """
    if message_type == ERROR:
        raise decode_error(body)[1]
    if message_type != HELLO_REPLY:
        raise ProtocolError(f"a HELLO is answered by HELLO_REPLY, not by message type {message_type}")
    node_id, frame_bytes_max = unpack_array(body, length=2, array_max=2)
    return HelloReply(
        integer(node_id, "node_id", 1, NODE_ID_MAX), integer(frame_bytes_max, "frame_bytes_max", 1, 2**32 - 1)
    )


# -------------------------------------------------------------------- requests


def encode_append(request_id: int, records: bytes) -> bytes:
    """Returns an APPEND; `records` is a batch as `pack_batch` makes it."""
    return encode_frame(APPEND, msgpack.packb((request_id, records)))


def decode_append(body: Buffer, body_crc: int | None = None) -> Append:
    """Returns an APPEND with its records checked and counted.

    With `body_crc` large records are not read again for their CRC.

    Raises `ProtocolError` if it is invalid, as all decoding functions here do.
    """
    request_id, records = unpack_array_with_data(body, length=2, array_max=2)
    records = binary_or_view(records, "records")
    crc = crc_of_data(records, body, body_crc)
    return Append(number(request_id, "request_id"), records, count_batch(records), crc)


def check_read(offset: int, bytes_max: int) -> None:
    """Raises `InvalidRequest` unless a node would accept them in a READ."""
    try:
        _read_bounds(offset, bytes_max)
    except ProtocolError as error:
        raise errors.InvalidRequest(error.detail) from None


def _read_bounds(offset: object, bytes_max: object) -> tuple[int, int]:
    return number(offset, "offset"), integer(bytes_max, "bytes_max", 0, READ_BYTES_MAX)


def encode_read(request_id: int, offset: int, bytes_max: int) -> bytes:
    """Returns a READ."""
    return encode_frame(READ, msgpack.packb((request_id, offset, bytes_max)))


def decode_read(body: Buffer) -> Read:
    """Returns the content of a READ."""
    request_id, offset, bytes_max = unpack_array(body, length=3, array_max=3)
    return Read(number(request_id, "request_id"), *_read_bounds(offset, bytes_max))


def encode_bare(message_type: int, request_id: int) -> bytes:
    """Returns a TAIL or a STATUS, which have an id alone."""
    return encode_frame(message_type, msgpack.packb((request_id,)))


def decode_bare(body: Buffer) -> int:
    """Returns the request id of TAIL and STATUS."""
    (request_id,) = unpack_array(body, length=1, array_max=1)
    return number(request_id, "request_id")


def check_command(command: bytes) -> None:
    """Raises `InvalidRequest` unless a node would accept it in an APPLY."""
    if type(command) is not bytes:
        raise errors.InvalidRequest(f"a command must be bytes, not {type(command).__name__}")


def encode_apply(request_id: int, command: bytes, *, read_only: bool) -> bytes:
    """Returns an APPLY."""
    return encode_frame(APPLY, msgpack.packb((request_id, command, read_only)))


def decode_apply(body: Buffer) -> Apply:
    """Returns the content of an APPLY."""
    request_id, command, read_only = unpack_array(body, length=3, array_max=3)
    return Apply(number(request_id, "request_id"), binary(command, "command"), boolean(read_only, "read_only"))


_ADD_LEARNER, _PROMOTE, _REMOVE, _CHANGE_VOTERS, _TRANSFER = 1, 2, 3, 4, 5


def encode_change(request_id: int, change: Change | NodeId) -> bytes:
    """Returns a CHANGE: the kind, its nodes, and an address for a learner."""
    values: tuple[int, list[int], str]
    match change:
        case AddLearner(node=node, address=address):
            values = _ADD_LEARNER, [node], address
        case Promote(node=node):
            values = _PROMOTE, [node], ""
        case Remove(node=node):
            values = _REMOVE, [node], ""
        case ChangeVoters(voters=voters):
            values = _CHANGE_VOTERS, sorted(voters), ""
        case _:
            values = _TRANSFER, [change], ""
    return encode_frame(CHANGE, msgpack.packb((request_id, *values)))


def decode_change(body: Buffer) -> ChangeRequest:
    """Returns the content of a CHANGE."""
    request_id, kind, nodes, address = unpack_array(body, length=4, array_max=MEMBERS_MAX)
    if type(nodes) is not list or not nodes:
        raise ProtocolError("the nodes of a CHANGE are not an array with nodes")
    ids = [NodeId(integer(node, "node", 1, NODE_ID_MAX)) for node in nodes]
    at = text(address, "address", ADDRESS_LENGTH_MAX)
    match integer(kind, "the kind of a CHANGE", _ADD_LEARNER, _TRANSFER):
        case 4:
            change: Change | NodeId = ChangeVoters(frozenset(ids))
        case _ if len(ids) > 1:
            raise ProtocolError("a CHANGE of several nodes is one of all voters")
        case 1 if at and not is_address(at):
            raise ProtocolError(f"not HOST:PORT: {at[:64]!r}")
        case 1:
            change = AddLearner(ids[0], at)
        case 2:
            change = Promote(ids[0])
        case 3:
            change = Remove(ids[0])
        case _:
            change = ids[0]
    return ChangeRequest(number(request_id, "request_id"), change)


def check_change(change: Change | NodeId) -> None:
    """Raises `InvalidRequest` unless a node would accept it in a CHANGE."""
    try:
        decode_change(encode_change(0, change)[HEADER.size :])
    except (ProtocolError, TypeError, ValueError, OverflowError) as error:
        raise errors.InvalidRequest(f"no change of the members: {error}") from None


# -------------------------------------------------------------------- replies


def encode_appended(request_id: int, base_offset: int, count: int, epoch: int) -> bytes:
    """Returns an APPENDED."""
    return encode_frame(APPENDED, _pack_short((request_id, base_offset, count, epoch)))


def encode_records(request_id: int, committed_end: int, batches: Sequence[RecordBatch]) -> bytes:
    """Returns a RECORDS reply."""
    rows = [(batch.base_offset, batch.epoch, batch.span, batch.data) for batch in batches]
    return encode_frame(RECORDS, msgpack.packb((request_id, committed_end, rows)))


def encode_tail_reply(request_id: int, committed_end: int, epoch: int) -> bytes:
    """Returns a TAIL_REPLY."""
    return encode_frame(TAIL_REPLY, msgpack.packb((request_id, committed_end, epoch)))


def encode_applied(request_id: int, index: int, result: bytes) -> bytes:
    """Returns an APPLIED."""
    return encode_frame(APPLIED, msgpack.packb((request_id, index, result)))


def encode_status_reply(request_id: int, status: dict[str, object]) -> bytes:
    """Returns a STATUS_REPLY; the only map on this wire, read by people and harnesses, never by a peer."""
    return encode_frame(STATUS_REPLY, msgpack.packb((request_id, status)))


def decode_reply(message_type: int, body: Buffer) -> tuple[int, Reply]:
    """Returns the id and the content of any reply. For an ERROR the content is the exception, which is not raised.

    Raises `ProtocolError` for anything that is not a reply.
    """
    decode = _REPLIES.get(message_type)
    if decode is None:
        raise ProtocolError(f"message type {message_type} is not a reply")
    return decode(body)


def _decode_appended(body: Buffer) -> tuple[int, Appended]:
    request_id, base_offset, count, epoch = unpack_array(body, length=4, array_max=4)
    return number(request_id, "request_id"), Appended(
        number(base_offset, "base_offset"), integer(count, "count", 1, RECORDS_MAX), number(epoch, "epoch")
    )


def _decode_records(body: Buffer) -> tuple[int, Records]:
    request_id, committed_end, rows = unpack_array(body, length=3, array_max=BATCHES_MAX)
    if type(rows) is not list:
        raise ProtocolError("the batches of a RECORDS reply are not an array")
    batches = []
    for row in rows:
        if type(row) is not list or len(row) != 4:
            raise ProtocolError("a batch of a RECORDS reply is not an array of 4")
        base_offset, epoch, span, data = row
        batches.append(
            RecordBatch(
                number(base_offset, "base_offset"), number(epoch, "epoch"), number(span, "span"), binary(data, "data")
            )
        )
    return number(request_id, "request_id"), Records(number(committed_end, "committed_end"), tuple(batches))


def _decode_tail(body: Buffer) -> tuple[int, Tail]:
    request_id, committed_end, epoch = unpack_array(body, length=3, array_max=3)
    return number(request_id, "request_id"), Tail(number(committed_end, "committed_end"), number(epoch, "epoch"))


def _decode_applied(body: Buffer) -> tuple[int, Applied]:
    request_id, index, result = unpack_array(body, length=3, array_max=3)
    return number(request_id, "request_id"), Applied(number(index, "index"), binary(result, "result"))


def _decode_status(body: Buffer) -> tuple[int, dict[str, object]]:
    try:
        values = msgpack.unpackb(body, max_array_len=1024, max_map_len=1024, max_ext_len=0)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise ProtocolError(f"not a status: {error}") from None
    if type(values) is not list or len(values) != 2 or type(values[1]) is not dict:
        raise ProtocolError("a status reply is an array of an id and a map")
    return number(values[0], "request_id"), values[1]


# -------------------------------------------------------------------- errors

NOT_LEADER = "not_leader"
BUSY = "busy"
STORAGE_FULL = "storage_full"
INVALID_REQUEST = "invalid_request"
UNKNOWN_OUTCOME = "unknown_outcome"
PROTOCOL = "protocol"
SHUTTING_DOWN = "shutting_down"
RECORDS_TRIMMED = "records_trimmed"
INVALID_RESULT = "invalid_result"
NOT_ADMITTED = "not_admitted"
NOT_ALLOWED = "not_allowed"
DIGITS_MAX = 19
"""The detail of `RECORDS_TRIMMED` has at most this many digits: it is the offset at which the remaining records begin.
"""

_CODES: dict[type[RaftError], str] = {
    errors.NotLeader: NOT_LEADER,
    errors.Busy: BUSY,
    errors.StorageFull: STORAGE_FULL,
    errors.InvalidRequest: INVALID_REQUEST,
    errors.OutcomeUnknown: UNKNOWN_OUTCOME,
    errors.ProtocolError: PROTOCOL,
    errors.ShuttingDown: SHUTTING_DOWN,
    errors.RecordsTrimmed: RECORDS_TRIMMED,
    errors.InvalidResult: INVALID_RESULT,
    errors.NotAdmitted: NOT_ADMITTED,
    errors.NotAllowed: NOT_ALLOWED,
}


def encode_error(request_id: int, error: RaftError) -> bytes:
    """Returns an ERROR; `request_id` 0 is for the connection as a whole."""
    leader, address = 0, ""
    if isinstance(error, errors.NotLeader):
        leader, address = error.leader or 0, error.address or ""
    detail = str(error.start_offset if isinstance(error, errors.RecordsTrimmed) else getattr(error, "detail", error))
    # A state machine may refuse with a class of its own that is an `InvalidRequest`.
    code = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    values = (request_id, code, error.definite, leader, address, detail[:500])
    return encode_frame(ERROR, msgpack.packb(values))


def decode_error(body: Buffer) -> tuple[int, RaftError]:
    """Returns the id and the error of an ERROR frame.

    An unknown code keeps its `definite`. Raises `ProtocolError` if it is invalid.
    """
    request_id, code, definite, leader, address, detail = unpack_array(body, length=6, array_max=6)
    return number(request_id, "request_id"), _to_error(
        text(code, "code", 64),
        boolean(definite, "definite"),
        integer(leader, "leader", 0, NODE_ID_MAX),
        text(address, "leader_address", 512),
        text(detail, "message", 1024),
    )


def _to_error(code: str, definite: bool, leader: int, address: str, detail: str) -> RaftError:
    if code == INVALID_RESULT:
        return errors.InvalidResult(detail)
    if not definite:
        return errors.OutcomeUnknown(detail if code == UNKNOWN_OUTCOME else f"{code}: {detail}")
    if code == NOT_LEADER:
        return errors.NotLeader(leader or None, address or None)
    if code == NOT_ADMITTED:
        return errors.NotAdmitted()
    if code == SHUTTING_DOWN:
        return errors.ShuttingDown()
    if code == RECORDS_TRIMMED and detail.isdecimal() and len(detail) <= DIGITS_MAX:
        return errors.RecordsTrimmed(int(detail))
    kind = _DETAILED.get(code)
    return kind(detail) if kind is not None else errors.InvalidRequest(f"{code}: {detail}")


_DETAILED: dict[str, Callable[[str], RaftError]] = {
    BUSY: errors.Busy,
    STORAGE_FULL: errors.StorageFull,
    INVALID_REQUEST: errors.InvalidRequest,
    NOT_ALLOWED: errors.NotAllowed,
    PROTOCOL: errors.ProtocolError,
}
_REPLIES: dict[int, Callable[[Buffer], tuple[int, Reply]]] = {
    APPENDED: _decode_appended,
    RECORDS: _decode_records,
    TAIL_REPLY: _decode_tail,
    APPLIED: _decode_applied,
    STATUS_REPLY: _decode_status,
    ERROR: decode_error,
}
