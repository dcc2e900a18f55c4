"""A Trio loop in a thread of its own, and one object living in it: what the faces for other programs stand on.

All behaviour is that of the Trio object; a face only carries calls over and their outcomes back.

- `open` starts the thread and enters the object's `async with` there; `close` leaves it and waits for the thread.
- `submit` makes a call, a task of its own, from any thread. The future it gives can be cancelled: so is the task then.
- When the loop ends, whatever the reason, every future ends. A call cut off by that may have taken effect:
  `OutcomeUnknown`.
- If the object ends by itself (a node whose disk failed), `close` raises its error.

Nothing of it is for a child process made by `fork`, which has the loop's descriptors but not its thread: refused.
"""

import functools
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, suppress
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

import trio

from raft.errors import OutcomeUnknown, RaftError

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
T = TypeVar("T")
Opener = Callable[[], AbstractAsyncContextManager[R]]


class LoopThread(Generic[R_co]):
    """`opener` makes the object in the loop; `refusal` the error of later calls; `block` names its block in errors."""

    def __init__(self, opener: Opener[R_co], refusal: Callable[[], RaftError], block: str) -> None:
        self.opened: Future[R_co] = Future()
        """The object, once it is open; what opening raised; cancelled to give opening up."""
        self.ended: Future[None] = Future()
        """The thread is done with everything; holds the error with which the object ended by itself."""
        self._opener = opener
        self._refusal = refusal
        self._not_open = f"use it in {block} block: it is not open"
        self._life = trio.CancelScope()
        self._stop = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._calls: trio.Nursery | None = None
        self._process: int | None = None
        """The id of the process that started the thread; None before that."""
        self._thread = threading.Thread(target=self._run, name="trio loop", daemon=True)

    # ---------------------------------------------------------------- for other threads

    def open(self) -> "Future[R_co]":
        """Start the thread. Returns a future of the object."""
        self.opened.add_done_callback(lambda opened: self.close() if opened.cancelled() else None)
        self._process = os.getpid()
        self._thread.start()
        return self.opened

    def submit(self, call: Callable[[R_co], Awaitable[T]]) -> "Future[T]":
        """Make a call in the loop. Returns a future of its result or error.

        Raises `RuntimeError` in a child made by `fork`, in the loop's own thread, and before `open`.
        """
        if self._is_inherited:
            raise RuntimeError("this was opened in the parent of this process; open another one here, after the fork")
        if threading.current_thread() is self._thread:
            raise RuntimeError("called from within its own loop, which cannot wait for itself")
        if not self.opened.done():
            raise RuntimeError(self._not_open)
        future: Future[T] = Future()
        try:
            if self._token is None:
                raise trio.RunFinishedError
            self._token.run_sync_soon(self._spawn, call, future)
        except trio.RunFinishedError:
            future.set_exception(self._refusal())
        return future

    @property
    def living(self) -> R_co:
        """The object itself, for attributes that never change. Raises `RuntimeError` before it is open."""
        if not self.opened.done():
            raise RuntimeError(self._not_open)
        return self.opened.result()

    @property
    def _is_inherited(self) -> bool:
        return self._process not in (None, os.getpid())

    def close(self) -> "Future[None]":
        """Begin to close. Returns a future that is done when the loop has ended. A second call is harmless."""
        if self._is_inherited:
            _settle(self.ended)  # the loop is the parent's
            return self.ended
        with suppress(trio.RunFinishedError):
            if self._token is not None:
                self._token.run_sync_soon(self._end)
        return self.ended

    def join(self) -> None:
        """Wait for the thread; at most a moment once `ended` is done."""
        self._thread.join()

    # ---------------------------------------------------------------- in the loop

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            trio.run(self._live)
        except BaseException as raised:  # noqa: BLE001 - raised again by `close`
            error = _alone(raised)
        if not self.opened.done():
            _settle(self.opened, error=error or self._refusal())
            error = None
        _settle(self.ended, None, error)

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._life:
            if self.opened.cancelled():
                return
            async with self._opener() as living, trio.open_nursery() as calls:
                self._calls = calls
                _settle(self.opened, living)
                await self._stop.wait()
                calls.cancel_scope.cancel()

    def _end(self) -> None:
        self._stop.set()
        if self._calls is None:
            self._life.cancel()  # it is being opened

    def _spawn(self, call: Callable[[R_co], Awaitable[T]], future: "Future[T]") -> None:
        if self._calls is None or self._stop.is_set() or self._calls.cancel_scope.cancel_called:
            _settle(future, error=self._refusal())
            return
        try:
            self._calls.start_soon(self._carry, call, future)
        except RuntimeError:  # the nursery has closed: the object ended by itself
            _settle(future, error=self._refusal())

    async def _carry(self, call: Callable[[R_co], Awaitable[T] | T], future: "Future[T]") -> None:
        token = self._token
        assert token is not None
        with trio.CancelScope() as scope:

            def on_done(done: "Future[T]") -> None:
                if done.cancelled():
                    with suppress(trio.RunFinishedError):
                        token.run_sync_soon(scope.cancel)

            future.add_done_callback(on_done)
            try:
                made = call(self.living)
                result = await made if isinstance(made, Awaitable) else made
            except Exception as error:  # noqa: BLE001 - carried over to the caller
                _settle(future, error=error)
            except BaseException:
                _settle(future, error=OutcomeUnknown("it was closed while the call was under way"))
                raise
            else:
                _settle(future, result)
            finally:
                del future  # else an error, its traceback, this frame and the future would keep each other


def _alone(error: BaseException) -> BaseException:
    """The error that Trio's nurseries have put into groups of one: other programs look for it by its type."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _settle(future: "Future[T]", result: T | None = None, error: BaseException | None = None) -> None:
    """Set the outcome of `future`, unless the caller has cancelled it meanwhile."""
    with suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]


# -------------------------------------------------------------------- what faces are made with: names, types and texts
# stay


def opening(
    opener: Callable[P, AbstractAsyncContextManager[R]],
) -> Callable[[Callable[[Opener[R]], T]], Callable[P, T]]:
    """Returns a decorator that lets a function of an `Opener` take the arguments of `opener` instead."""

    def decorate(make: Callable[[Opener[R]], T]) -> Callable[P, T]:
        @functools.wraps(opener)
        def open_(*args: P.args, **kwargs: P.kwargs) -> T:
            return make(functools.partial(opener, *args, **kwargs))

        return open_

    return decorate


def constructing(
    made: Callable[P, AbstractAsyncContextManager[R]],
) -> Callable[[Callable[[S, Opener[R]], None]], Callable[Concatenate[S, P], None]]:
    """Returns a decorator that lets a constructor with an `Opener` take the arguments of the class `made` instead."""

    def decorate(construct: Callable[[S, Opener[R]], None]) -> Callable[Concatenate[S, P], None]:
        @functools.wraps(made.__init__)
        def init(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
            construct(self, functools.partial(made, *args, **kwargs))

        return init

    return decorate


def in_loop(method: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], Awaitable[T]]:
    """Returns a synchronous method as one that is called in the loop like the asynchronous ones."""
    return cast("Callable[Concatenate[R, P], Awaitable[T]]", method)


def own(living: R, method: Callable[Concatenate[R, P], T]) -> Callable[P, T]:
    """Returns the bound `method` of the object itself, because its class may override the method that a face names."""
    return cast("Callable[P, T]", getattr(living, method.__name__))
