"""The way to the members of an etcd cluster that others run: TLS and a user, named as etcdctl names its options."""

from collections.abc import Callable
from typing import Any, Final, Self

import attrs
import trio

from jepsen_like.port.port import RunningCluster
from jepsen_like.port.wires import Address
from jepsen_like.systems.foreign.json_client import ErrorAnswered, JsonConnection, Unreadable
from jepsen_like.systems.target.properties import certificates_of, properties_of, switch_in, wrong_file
from raft.net.certificates import Certificates, TlsFiles

FILES: Final = ("cacert", "cert", "key")
INSECURE: Final = "insecure-skip-tls-verify"
KNOWN: Final = (*FILES, INSECURE, "tls", "user", "password")
AUTHENTICATE: Final = "/v3/auth/authenticate"
UNAUTHENTICATED: Final = 401
LOGIN_WITHIN_S: Final = 5.0


class EtcdConnection(JsonConnection):
    """A connection that shows the token of a user."""

    forget: Callable[[str], None] | None = None
    """Called with a token that was refused."""

    async def ask(self, path: str, body: Any) -> Any:
        """See `JsonConnection`. A refused token ends the connection, so that the next one gets another."""
        try:
            return await super().ask(path, body)
        except ErrorAnswered as error:
            if error.status == UNAUTHENTICATED and self.forget is not None:
                self.forget(self.authorization)
                self.close()
            raise


@attrs.define
class EtcdAccess:
    """The beginning of each connection to a member."""

    tls: Certificates | None = None
    user: str = ""
    password: str = attrs.field(default="", repr=False)
    _token: str = attrs.field(default="", init=False, eq=False, repr=False)
    """One for all connections, as a login takes a member a while. It counts with each until that member restarts."""
    _login: trio.Lock = attrs.field(factory=trio.Lock, init=False, eq=False, repr=False)

    @classmethod
    def of(cls, target: RunningCluster) -> Self:
        """Returns what the file of a target gives. Raises `WrongMode`."""
        given = properties_of(target, KNOWN)
        user, colon, password = given.get("user", "").partition(":")
        if "password" in given:
            if colon:
                raise wrong_file("the password is given twice")
            password = given["password"]
        if bool(user) is not bool(password):
            raise wrong_file("user and password go together: user=NAME:PASSWORD, or one line each")
        insecure = switch_in(given, INSECURE)
        files = TlsFiles(
            certificate=given.get("cert"),
            key=given.get("key"),
            authority=given.get("cacert"),
            checks_authority=not insecure,
        )
        speaks_tls = switch_in(given, "tls") or insecure or any(name in given for name in FILES)
        return cls(certificates_of(files) if speaks_tls else None, user, password)

    async def connect(self, address: Address, *, within_s: float) -> EtcdConnection:
        """Returns a connection that shows a token. Raises `ErrorAnswered`, or one of `UNREACHABLE`."""
        with trio.fail_after(within_s):
            connection = await EtcdConnection.connect(address, within_s=within_s, tls=self.tls)
            try:
                if self.user:
                    connection.authorization = await self._log_in(connection)
                    connection.forget = self._forget
            except BaseException:
                connection.close()
                raise
        return connection

    async def _log_in(self, connection: JsonConnection) -> str:
        """Returns the token, asked for on this connection if there is none. Raises like `connect`."""
        async with self._login:
            if not self._token:
                # A login that is given up would have to be paid for again.
                with trio.fail_after(LOGIN_WITHIN_S, shield=True):
                    answer = await connection.ask(AUTHENTICATE, {"name": self.user, "password": self.password})
                if not isinstance(answer, dict) or not isinstance(token := answer.get("token"), str):
                    raise Unreadable("a login was answered without a token")
                self._token = token
            return self._token

    def _forget(self, token: str) -> None:
        """A member does not know this one."""
        if token == self._token:
            self._token = ""
