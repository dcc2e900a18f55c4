"""The face for plain Python: `Client` and `RaftGroup` of Trio, by the same names, in blocking calls from any thread.

    with Client(["127.0.0.1:4001", "127.0.0.1:4002"], "demo") as client:
        appended = client.append([b"one", b"two"])

Arguments, results, errors and what they mean are those of `raft.client` and `raft.group`, whose code runs in a thread
that the `with` block starts and ends. A call of `Client` ends by its `deadline_s`. A call that Ctrl-C interrupts is
cancelled: like one that ends with `OutcomeUnknown`, it may have taken effect. Callbacks (`on_attempt`, `notify`,
subscribers, the state machine) run in that thread and must not block.

A node that ends by itself, because its disk failed, refuses later calls; its error is raised out of the `with` block.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from log.recovery import RecoveryReport
from raft import client, group
from raft.addresses import Address
from raft.client import client_is_closed
from raft.errors import RaftError, ShuttingDown
from raft.loop_thread import LoopThread, Opener, constructing, in_loop, opening, own
from raft.model import NodeId

__all__ = ["Client", "RaftGroup"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Face(Generic[R_co]):
    """A `with` block around an object that lives in a Trio loop; calls after its end raise what `refusal` returns."""

    def __init__(self, opener: Opener[R_co], refusal: Callable[[], RaftError]) -> None:
        self._loop = LoopThread(opener, refusal, block="a `with`")

    def __enter__(self) -> Self:
        opened = self._loop.open()
        try:
            opened.result()
        except BaseException:
            opened.cancel()
            self._loop.close()  # if it was open already
            self._loop.join()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        ended = self._loop.close()
        self._loop.join()
        ended.result()


def blocking(method: Callable[Concatenate[R, P], Awaitable[T]]) -> Callable[Concatenate[Face[R], P], T]:
    """Returns `method` of the object as a blocking method of its face."""

    @functools.wraps(method)
    def call(self: Face[R], /, *args: P.args, **kwargs: P.kwargs) -> T:
        future = self._loop.submit(lambda living: own(living, method)(*args, **kwargs))
        try:
            return future.result()
        except BaseException:
            future.cancel()  # whatever interrupts the wait ends the call, too
            raise
        finally:
            del future

    return call


class Client(Face[client.Client]):
    """See `raft.client.Client`; use as `with`. Any number of threads may call at once."""

    @constructing(client.Client)
    def __init__(self, opener: Opener[client.Client]) -> None:
        super().__init__(opener, client_is_closed)

    append = blocking(client.Client.append)
    read = blocking(client.Client.read)
    tail = blocking(client.Client.tail)
    apply = blocking(client.Client.apply)
    query = blocking(client.Client.query)
    change_members = blocking(client.Client.change_members)
    transfer_leadership = blocking(client.Client.transfer_leadership)
    status = blocking(client.Client.status)


class RaftGroup(Face[group.RaftGroup]):
    """See `raft.group.RaftGroup`; any number of threads may call at once."""

    @staticmethod
    @opening(group.RaftGroup.open)
    def open(opener: Opener[group.RaftGroup]) -> "RaftGroup":
        """See `raft.group.RaftGroup.open`; use as `with`."""
        return RaftGroup(opener, ShuttingDown)

    @property
    def address(self) -> Address:
        """The address on which this node listens."""
        return self._loop.living.address

    @property
    def members(self) -> Mapping[NodeId, str]:
        """The address at which others dial each member, as far as this node knows."""
        return self._loop.living.members

    @property
    def recovery(self) -> RecoveryReport:
        """The findings and repairs of the recovery when the log was opened."""
        return self._loop.living.recovery

    append = blocking(group.RaftGroup.append)
    read = blocking(group.RaftGroup.read)
    tail = blocking(group.RaftGroup.tail)
    apply = blocking(group.RaftGroup.apply)
    query = blocking(group.RaftGroup.query)
    change_members = blocking(group.RaftGroup.change_members)
    transfer_leadership = blocking(group.RaftGroup.transfer_leadership)
    wait_for_leader = blocking(group.RaftGroup.wait_for_leader)
    status = blocking(in_loop(group.RaftGroup.status))
    figures = blocking(in_loop(group.RaftGroup.figures))
    obstacle = blocking(in_loop(group.RaftGroup.obstacle))
    submit = blocking(in_loop(group.RaftGroup.submit))
    subscribe = blocking(in_loop(group.RaftGroup.subscribe))
