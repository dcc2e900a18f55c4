"""A broker with accounts (aclEnable): each request is checked before its handler, and the file is read when it changes.

A member of the cluster that has proven itself (`membership`) needs no account.
"""

import os
from typing import Final, Self

import attrs

from raft.net.budget import Standing
from raft.net.seldom import Seldom
from rocketmq_compat.acl_file import FILE_BYTES_MAX, InvalidAclFile, read_rules
from rocketmq_compat.acls import ACCESS_KEY, AclRefused, AclRules
from rocketmq_compat.broker.context import Context
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.session import Handler, RemotingCall

LOOK_EVERY_S: Final = 5.0
"""The time between two looks at the file (AclFileWatchService)."""

NAMED_MAX: Final = 300
"""Characters of a text of a client in a report."""


@attrs.define
class UnusableAclFile(Exception):
    """The file of accounts is not there or cannot be used."""

    detail: str

    def __str__(self) -> str:
        return self.detail


_Mark = tuple[int, int, int]
"""Changes with the content of a file: its time, size and inode."""


class Authorization:
    """The accounts of one broker. `tick` is to be called once a round."""

    def __init__(self, context: Context, path: str) -> None:
        """Raises `UnusableAclFile`."""
        self._context = context
        self._path = path
        self._seldom = Seldom(context.clock)
        self._mark: _Mark | None = None
        self.rules = AclRules()
        self._load()
        self.deadline = context.clock() + LOOK_EVERY_S

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """Returns the accounts of a broker that has them. Raises `UnusableAclFile`."""
        return cls(context, context.properties.words("aclFile")) if context.properties.flag("aclEnable") else None

    def tick(self, now: float) -> None:
        """Read the file again if it has changed. One that cannot be used leaves the accounts as they are."""
        if now < self.deadline:
            return
        self.deadline = now + LOOK_EVERY_S
        try:
            if self._load():
                self._context.tell("accounts", file=self._path, count=len(self.rules.accounts))
        except UnusableAclFile as error:
            if self._seldom.note(str(error)) is not None:
                self._context.tell("accounts_refused", reason=str(error))

    def guard(self, handler: Handler) -> Handler:
        """Returns a handler that serves what the account of a request may do."""

        def serve(call: RemotingCall) -> None:
            if call.session.member is not None or call.request.code == RequestCode.PROVE_MEMBERSHIP:
                handler(call)
                return
            host = call.connection.name.rpartition(":")[0]
            try:
                self.rules.check(call.request, host)
            except AclRefused as refusal:
                self._report(call.request, host, refusal)
                call.refuse(ResponseCode.SYSTEM_ERROR, str(refusal))
            else:
                call.session.standing = Standing.KNOWN
                handler(call)

        return serve

    def _report(self, request: Command, host: str, refusal: AclRefused) -> None:
        reason = refusal.detail[:NAMED_MAX]
        times = self._seldom.note((host, request.code, reason))
        if times is not None:
            more = {"times": times} if times > 1 else {}
            access_key = request.ext.get(ACCESS_KEY, "")[:NAMED_MAX]
            self._context.tell("denied", access_key=access_key, host=host, code=request.code, reason=reason, **more)

    def _load(self) -> bool:
        """Returns True if the file has changed. Raises `UnusableAclFile`."""
        try:
            with open(self._path, "rb") as file:
                found = os.fstat(file.fileno())
                mark = found.st_mtime_ns, found.st_size, found.st_ino
                if mark == self._mark:
                    return False
                content = file.read(FILE_BYTES_MAX + 1)
            if len(content) > FILE_BYTES_MAX:
                raise InvalidAclFile(f"it is longer than {FILE_BYTES_MAX} bytes")
            self.rules = read_rules(content.decode())
        except (OSError, UnicodeDecodeError, InvalidAclFile) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UnusableAclFile(f"aclFile {self._path}: {reason}") from None
        self._mark = mark
        return True
