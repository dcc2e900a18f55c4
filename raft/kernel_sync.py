"""An fdatasync that the kernel carries out while the caller goes on: Linux native AIO, `IOCB_CMD_FDSYNC` (Linux 4.18).

The kernel does what the system call would (`vfs_fsync`), for everything that was written before, and its end makes an
eventfd readable. A thread that waits instead has to be woken, and then needs the interpreter twice, which the loop has:
with the kernel a node takes a tenth more appends.

The C library has no functions for it (io_setup(2)), so the system calls are made by number. Where there is no such
call, or a sandbox forbids it, `open` returns None; in a kernel older than 4.18 `begin` returns False.

Destroying a context blocks the caller for 30 ms. So contexts are kept by the process and reused by the next `open`: as
many as there ever were at once.
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Mapping
from typing import Final, Self

from log.values import frozen


@frozen
class Numbers:
    """Of the system calls."""

    setup: int
    getevents: int
    submit: int


NUMBERS: Final[Mapping[str, Numbers]] = {
    "x86_64": Numbers(setup=206, getevents=208, submit=209),
    "aarch64": Numbers(setup=0, getevents=4, submit=2),
}
"""By machine (`uname -m`)."""

IOCB = struct.Struct("<QIiHhiQQqQII")
"""data, key, rw_flags, opcode, priority, descriptor, buffer, bytes, offset, reserved, flags, eventfd."""
FDSYNC = 3
WITH_EVENTFD = 1
EVENT = struct.Struct("<QQqq")
"""data, iocb, result (an errno below 0), second result."""

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes = [ctypes.c_long] * 6
_syscall.restype = ctypes.c_long

_spare: list[int] = []
"""Unused contexts of this process.

In a child made by `fork` they are invalid, and the kernel accepts nothing for them.
"""


class KernelSync:
    """At most one sync at a time, whose end makes `done_fd` readable."""

    def __init__(self, numbers: Numbers, context: int, done_fd: int) -> None:
        """Use `open`."""
        self._numbers = numbers
        self._context = context
        self._done_fd = done_fd
        self._iocb = ctypes.create_string_buffer(IOCB.size)
        self._iocbs = ctypes.c_void_p(ctypes.addressof(self._iocb))
        self._event = ctypes.create_string_buffer(EVENT.size)
        self._under_way = False

    @classmethod
    def open(cls, done_fd: int) -> Self | None:
        """Returns None if this system has no native AIO, or has no context left."""
        numbers = NUMBERS.get(os.uname().machine)
        if numbers is None or sys.maxsize < 2**32:
            return None
        if _spare:
            return cls(numbers, _spare.pop(), done_fd)
        context = ctypes.c_ulong(0)
        is_made = _syscall(numbers.setup, 1, ctypes.addressof(context), 0, 0, 0) == 0
        return cls(numbers, context.value, done_fd) if is_made else None

    def begin(self, descriptor: int) -> bool:
        """Begin to sync a file as it is now.

        Returns False if the kernel does not accept it; then nothing is under way.
        """
        IOCB.pack_into(self._iocb, 0, 0, 0, 0, FDSYNC, 0, descriptor, 0, 0, 0, 0, WITH_EVENTFD, self._done_fd)
        # Assumed until the kernel has answered, because a context with an unread result must not be reused if this is
        # interrupted.
        self._under_way = True
        self._under_way = _syscall(self._numbers.submit, self._context, 1, ctypes.addressof(self._iocbs), 0, 0) == 1
        return self._under_way

    def end(self) -> int:
        """Wait for the sync that has begun.

        Returns its errno: 0 if the data is durable; any other if the sync failed, or if its result cannot be known.
        """
        while _syscall(self._numbers.getevents, self._context, 1, 1, ctypes.addressof(self._event), 0) != 1:
            if ctypes.get_errno() != errno.EINTR:
                return ctypes.get_errno()
        self._under_way = False
        result: int = EVENT.unpack(self._event)[2]
        return -result

    def close(self) -> None:
        """Keep the context for the next `open`; one with a sync under way stays unused until the process ends.

        Must be called once.
        """
        if not self._under_way:
            _spare.append(self._context)
