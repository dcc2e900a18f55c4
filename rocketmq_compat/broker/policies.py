"""A broker with users and policies (authenticationEnabled): requests change them, and each request is checked by them.

They are in the file `auth.json`, durably before a change is answered. A member of the cluster that has proven itself
(`membership`) needs no user. Each broker has users of its own, as in RocketMQ: mqadmin sends a change to all of a cluster.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Final, Self

from log.errors import NoSpace
from raft.net.handlers import serves
from raft.net.seldom import Seldom
from rocketmq_compat.acls import ACCESS_KEY
from rocketmq_compat.broker.authorization import UnusableAclFile
from rocketmq_compat.broker.context import Context, DiskWork
from rocketmq_compat.config import InvalidProperty
from rocketmq_compat.policies import AuthChangeRefused, AuthRefused, AuthRules
from rocketmq_compat.remoting.bodies import AclInfo, AuthTable, UserInfo
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.headers.auth import (
    AclRequestHeader,
    DeleteAclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserRequestHeader,
)
from rocketmq_compat.remoting.session import Handler, RemotingCall

FILE: Final = "auth.json"
NAMED_MAX: Final = 300
"""Characters of a text of a client in a report."""
SUPER: Final = "super"


class Policies:
    """The users and policies of one broker."""

    def __init__(self, context: Context, disk: DiskWork) -> None:
        """Raises `UnusableAclFile`, and `InvalidProperty` for an initial user that is none."""
        self._context = context
        self._disk = disk
        self._seldom = Seldom(context.clock)
        self._authorizes = context.properties.flag("authorizationEnabled")
        self._writing = False
        self._waiting: list[tuple[RemotingCall, Callable[[AuthRules], AuthRules]]] = []
        self.rules = self._read()
        first = context.properties.text("initAuthenticationUser")
        if first:
            self._make_first(first)

    deadline: Final = math.inf
    """`tick` is never due."""

    def tick(self, now: float) -> None:
        """Nothing to do: the file is this broker's own."""

    @classmethod
    def of(cls, context: Context, disk: DiskWork) -> Self | None:
        """Returns the policies of a broker that has them. Raises as the constructor does."""
        return cls(context, disk) if context.properties.flag("authenticationEnabled") else None

    def _read(self) -> AuthRules:
        content = self._context.store.read_note(FILE)
        rules = AuthRules()
        if content is None:
            return rules
        try:
            table = AuthTable.decode(content)
            for user in table.users:
                rules = rules.create_user(user)
            for acl in table.acls:
                rules = rules.with_acl(acl)
        except (BadBody, AuthRefused) as error:
            raise UnusableAclFile(f"{FILE} cannot be read ({error}); put it back from a copy, or remove it") from None
        return rules

    def _make_first(self, text: str) -> None:
        """Make the user of the properties, who may do everything, unless there is one of its name."""
        try:
            user = UserInfo.decode(text.encode())
            if user.username not in self.rules.users:
                named = UserInfo(username=user.username, password=user.password, user_type=SUPER)
                self.rules = self.rules.create_user(named)
                self._context.store.write_note(FILE, _encode(self.rules))
        except (BadBody, AuthRefused) as error:
            detail = f'initAuthenticationUser is {{"username":"...","password":"..."}}: {error}'
            raise InvalidProperty("initAuthenticationUser", detail) from None

    # ---------------------------------------------------------------- checking

    def guard(self, handler: Handler) -> Handler:
        """Returns a handler that serves what the user of a request may do."""

        def serve(call: RemotingCall) -> None:
            if call.session.member is not None or call.request.code == RequestCode.PROVE_MEMBERSHIP:
                handler(call)
                return
            host = call.connection.name.rpartition(":")[0]
            try:
                self.rules.check(call.request, host, self._context.cluster, authorizes=self._authorizes)
            except AuthRefused as refusal:
                self._report(call, host, refusal)
                call.refuse(ResponseCode.NO_PERMISSION, str(refusal))
            else:
                handler(call)

        return serve

    def _report(self, call: RemotingCall, host: str, refusal: AuthRefused) -> None:
        reason, code = refusal.detail[:NAMED_MAX], call.request.code
        times = self._seldom.note((host, code, reason))
        if times is not None:
            more = {"times": times} if times > 1 else {}
            user = call.request.ext.get(ACCESS_KEY, "")[:NAMED_MAX]
            self._context.tell("denied", user=user, host=host, code=code, reason=reason, **more)

    def _is_super(self, call: RemotingCall) -> bool:
        user = self.rules.users.get(call.request.ext.get(ACCESS_KEY, ""))
        return call.session.member is not None or (user is not None and user.is_super)

    # ---------------------------------------------------------------- changes

    def _change(self, call: RemotingCall, change: Callable[[AuthRules], AuthRules]) -> None:
        """Carry out a change behind those under way, and answer when it lasts."""
        self._waiting.append((call, change))
        if not self._writing:
            self._write_next()

    def _write_next(self) -> None:
        while self._waiting:
            call, change = self._waiting.pop(0)
            try:
                rules = change(self.rules)
            except AuthChangeRefused as refusal:
                call.refuse(ResponseCode.NO_PERMISSION, str(refusal))
                continue
            self._writing = True
            write = partial(self._context.store.write_note, FILE, _encode(rules))
            self._disk.submit(write, partial(self._end_write, call, rules))
            return

    def _end_write(self, call: RemotingCall, rules: AuthRules, error: BaseException | None) -> None:
        self._writing = False
        if isinstance(error, NoSpace):
            call.refuse(ResponseCode.SYSTEM_ERROR, f"nothing was changed: {error}")
        elif error is not None:
            raise error
        else:
            self.rules = rules
            call.answer()
        self._write_next()

    @serves(RequestCode.AUTH_CREATE_USER)
    def _create_user(self, call: RemotingCall) -> None:
        user = self._user_of(call)
        if user is not None:
            self._change(call, lambda rules: rules.create_user(user))

    @serves(RequestCode.AUTH_UPDATE_USER)
    def _update_user(self, call: RemotingCall) -> None:
        user = self._user_of(call)
        if user is not None:
            self._change(call, lambda rules: rules.update_user(user))

    def _user_of(self, call: RemotingCall) -> UserInfo | None:
        """Returns the user that a request describes; None if it is refused: only a super user makes or changes one."""
        header = UserRequestHeader.read(call.request.ext)
        if not (header.username or "").strip():
            call.refuse(ResponseCode.INVALID_PARAMETER, "The username is blank")
            return None
        body = UserInfo.decode(call.request.body)
        before = self.rules.users.get(header.username or "")
        touches_super = (body.user_type or "").lower() == SUPER or (before is not None and before.is_super)
        if touches_super and not self._is_super(call):
            call.refuse(ResponseCode.SYSTEM_ERROR, "The super user can only be changed by super user")
            return None
        return UserInfo(
            username=header.username, password=body.password, user_type=body.user_type, user_status=body.user_status
        )

    @serves(RequestCode.AUTH_DELETE_USER)
    def _delete_user(self, call: RemotingCall) -> None:
        header = UserRequestHeader.read(call.request.ext)
        before = self.rules.users.get(header.username or "")
        if before is not None and before.is_super and not self._is_super(call):
            call.refuse(ResponseCode.SYSTEM_ERROR, "The super user can only be changed by super user")
            return
        self._change(call, lambda rules: rules.delete_user(header.username))

    @serves(RequestCode.AUTH_CREATE_ACL)
    def _create_acl(self, call: RemotingCall) -> None:
        self._put_acl(call)

    @serves(RequestCode.AUTH_UPDATE_ACL)
    def _update_acl(self, call: RemotingCall) -> None:
        self._put_acl(call)

    def _put_acl(self, call: RemotingCall) -> None:
        header = AclRequestHeader.read(call.request.ext)
        body = AclInfo.decode(call.request.body)
        acl = AclInfo(subject=header.subject or body.subject, policies=body.policies)
        self._change(call, lambda rules: rules.with_acl(acl))

    @serves(RequestCode.AUTH_DELETE_ACL)
    def _delete_acl(self, call: RemotingCall) -> None:
        header = DeleteAclRequestHeader.read(call.request.ext)
        self._change(call, lambda rules: rules.without_acl(header.subject, header.policy_type, header.resource))

    # ---------------------------------------------------------------- questions

    @serves(RequestCode.AUTH_GET_USER)
    def _get_user(self, call: RemotingCall) -> None:
        header = UserRequestHeader.read(call.request.ext)
        if not (header.username or "").strip():
            call.refuse(ResponseCode.INVALID_PARAMETER, "The username is blank")
            return
        user = self.rules.users.get(header.username or "")
        call.answer(body=b"" if user is None else user.info().encode())

    @serves(RequestCode.AUTH_LIST_USER)
    def _list_users(self, call: RemotingCall) -> None:
        part = ListUsersRequestHeader.read(call.request.ext).filter or ""
        found = [user.info().encode() for name, user in sorted(self.rules.users.items()) if part in name]
        call.answer(body=_array(found))

    @serves(RequestCode.AUTH_GET_ACL)
    def _get_acl(self, call: RemotingCall) -> None:
        header = AclRequestHeader.read(call.request.ext)
        try:
            acl = self.rules.acl(self.rules.require_subject(header.subject))
        except AuthChangeRefused as refusal:
            call.refuse(ResponseCode.NO_PERMISSION, str(refusal))
            return
        call.answer(body=b"" if acl is None else acl.encode())

    @serves(RequestCode.AUTH_LIST_ACL)
    def _list_acls(self, call: RemotingCall) -> None:
        header = ListAclsRequestHeader.read(call.request.ext)
        names = [name for name in sorted(self.rules.policies) if (header.subject_filter or "") in f"User:{name}"]
        found = [self.rules.acl(name, header.resource_filter or "") for name in names]
        call.answer(body=_array([acl.encode() for acl in found if acl is not None]))


def _encode(rules: AuthRules) -> bytes:
    acls = tuple(acl for acl in map(rules.acl, rules.policies) if acl is not None)
    return AuthTable(users=tuple(user.info() for user in rules.users.values()), acls=acls).encode()


def _array(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"
