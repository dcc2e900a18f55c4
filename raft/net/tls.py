"""TLS as bytes in and bytes out: one side of one connection, over the memory buffers of Python's `ssl`.

The stream takes what arrives (`feed`), gives back what was meant (`read_into`), seals what is to leave (`seal`), and
collects what the protocol itself has to send (`output`): handshake, tickets, alerts. It owns no socket and no clock.
What it holds is bounded by what was fed and not read, and by one unfinished record.

Only TLS 1.2 and 1.3 are spoken (RFC 5246, RFC 8446).
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from raft.net.decoder import TLS_HANDSHAKE, Buffer

RECORD_HEADER_BYTES: Final = 5
"""Type, version and length of a record."""
RECORD_BYTES_MAX: Final = RECORD_HEADER_BYTES + 2**14 + 2048
"""The largest record that either version allows, header and all."""
_TYPES = (20, 21, TLS_HANDSHAKE, 23)

SPEAKS_PLAIN_TEXT = "the other side speaks plain text, and this side TLS"


class TlsFailed(OSError):
    """TLS cannot go on: `strerror` states the reason. It ends the connection as a broken socket does."""

    def __init__(self, reason: str) -> None:
        super().__init__(None, f"TLS: {reason}")

    def __str__(self) -> str:
        return str(self.strerror)


class TlsStream:
    """One side of one connection."""

    __slots__ = ("_arrived", "_engine", "_left", "_outgoing", "_partial", "_shaking_bytes", "is_ended", "is_ready")

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None) -> None:
        """A client gives the `host` that it dialled, which the other side's certificate must name."""
        self._arrived, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._engine = context.wrap_bio(self._arrived, self._outgoing, server_side=server_side, server_hostname=host)
        self._left = 0
        """The bytes that the present record still lacks."""
        self._partial = b""
        """The begin of a record's header."""
        self._shaking_bytes = 0
        """Those that arrived in a handshake that is not done: OpenSSL keeps an unfinished message where none can see it."""
        self.is_ready = False
        """True once the handshake is done."""
        self.is_ended = False
        """True once the other side has announced the end of its data (close_notify)."""

    @property
    def pending_bytes(self) -> int:
        """More than 0 if a record was begun and is not complete."""
        return self._left or len(self._partial)

    @property
    def held_bytes(self) -> int:
        """The bytes in its buffers; all that came, as long as the handshake lasts."""
        return self._shaking_bytes + self._arrived.pending + self._outgoing.pending

    @property
    def subject(self) -> str | None:
        """The distinguished name in the verified certificate of the other side (RFC 2253); None without one."""
        certificate = self.certificate
        return distinguished_name(certificate) if certificate else None

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The verified certificate of the other side, as `SSLObject.getpeercert` returns it; None without one."""
        return self._engine.getpeercert() if self.is_ready else None

    def feed(self, chunk: Buffer) -> None:
        """Take what has arrived, and go on with the handshake. Raises `TlsFailed`."""
        self._walk(chunk)
        self._arrived.write(chunk)
        if not self.is_ready:
            self._shaking_bytes += len(chunk)
            self.shake_hands()

    def shake_hands(self) -> None:
        """Go on with the handshake as far as possible; a client begins with this. Raises `TlsFailed`."""
        try:
            self._engine.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise TlsFailed(f"the handshake failed: {reason_of(error)}") from None
        self.is_ready = True
        self._shaking_bytes = 0

    def read_into(self, buffer: memoryview) -> int:
        """Returns how many bytes of plain text were put at the beginning of `buffer`; all there are, if they fit.

        Raises `TlsFailed` for records that are damaged or no records, and for an alert.
        """
        count = 0
        try:
            while self.is_ready and count < len(buffer):
                read = int(self._engine.read(len(buffer) - count, buffer[count:] if count else buffer))
                if not read:
                    self.is_ended = True
                    break
                count += read
                if not self._arrived.pending:
                    break  # to ask again would cost an exception, and find no whole record
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        except ssl.SSLError as error:
            raise TlsFailed(reason_of(error)) from None
        return count

    def seal(self, data: Buffer) -> None:
        """Encrypt `data`, after the handshake; `output` has it then. Raises `TlsFailed` after a failure."""
        try:
            written = self._engine.write(data) if data else 0
            left = memoryview(data)[written:]
            while left:
                left = left[self._engine.write(left) :]
        except ssl.SSLError as error:
            raise TlsFailed(reason_of(error)) from None

    def end(self) -> None:
        """Announce the end of this side's data, as far as that is possible."""
        try:
            self._engine.unwrap()
        except ssl.SSLError:
            return  # the other side need not have ended, and a failed stream has nothing to announce

    def output(self) -> bytes:
        """Returns all that is to be sent, once."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def _walk(self, chunk: Buffer) -> None:
        """Follow the records, so that an unfinished one is known. Raises `TlsFailed` for bytes that begin none."""
        at, size = min(self._left, len(chunk)), len(chunk)
        self._left -= at
        while at < size:
            begun = self._partial + bytes(chunk[at : at + RECORD_HEADER_BYTES - len(self._partial)])
            if begun[0] not in _TYPES or begun[1:2] not in (b"", b"\3"):
                raise TlsFailed("bytes that are no record" if self.is_ready else SPEAKS_PLAIN_TEXT)
            at += len(begun) - len(self._partial)
            if len(begun) < RECORD_HEADER_BYTES:
                self._partial = begun
                return
            self._partial = b""
            length = (begun[3] << 8) + begun[4]
            if length > RECORD_BYTES_MAX:
                raise TlsFailed(f"a record of {length} bytes")
            arrived = min(length, size - at)
            self._left = length - arrived
            at += arrived


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Returns the subject of a certificate, as `SSLObject.getpeercert` returns one, in the order of RFC 2253."""
    named = [(key, value) for rdn in certificate.get("subject", ()) for key, value in rdn]
    return ",".join(f"{_SHORT.get(key, key)}={_escape(value)}" for key, value in reversed(named))


_SHORT: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
}


def _escape(value: str) -> str:
    text = "".join(f"\\{each}" if each in ',+"\\<>;' else each for each in value)
    return f"\\{text}" if text.startswith(("#", " ")) else text


def reason_of(error: ssl.SSLError) -> str:
    """Returns one line: the reason of OpenSSL in words, with our own where they are clearer."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {error.verify_message}"
    reason = error.reason or str(error)
    known = _REASONS.get(reason)
    if known is not None:
        return known
    if "_ALERT_" in reason:
        return f"the other side sent the alert {reason.partition('_ALERT_')[2].lower().replace('_', ' ')}"
    return reason.lower().replace("_", " ")


_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has sent no certificate, and one is required",
    "UNSUPPORTED_PROTOCOL": "the other side offers no version of TLS from 1.2 on",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other side refuses TLS 1.2 and 1.3",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side requires a certificate of this one",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not know the authority of this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side refuses this side's certificate: it has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side refuses this side's certificate",
    "NO_SHARED_CIPHER": "both sides share no cipher",
}
