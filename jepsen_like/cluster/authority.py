"""A certificate authority to throw away, in a directory: for clusters on one's own machines, and for tests.

The directory holds `ca.pem` and `ca.key`, and for each name `NAME.pem` and `NAME.key`, and both in one as
`NAME.keystore.pem`, as Kafka has it. Keys are not encrypted, and only
their owner may read them (mode 0600). Who reads `ca.key` can be anyone in the cluster. Every file is replaced as a
whole, the key before its certificate, so that a server which reads them again soon finds a pair.
"""

import contextlib
import datetime
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jepsen_like.port.port import TlsPaths

AUTHORITY: Final = "ca"
HOSTS: Final = ("localhost", "127.0.0.1", "::1")
"""The names that every node's certificate has."""
DAYS: Final = 365
AUTHORITY_DAYS: Final = 3650
EARLIER: Final = datetime.timedelta(hours=1)
"""Certificates begin to be valid so long ago: clocks differ."""
ORGANIZATION: Final = "quorumlog"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class UnusableAuthority(Exception):
    """The directory, or a name, cannot be used; the text states the reason and the correction."""


@attrs.frozen
class Authority:
    """The authority of a directory."""

    directory: Path
    _certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def at(cls, directory: Path) -> "Authority":
        """Returns the authority of the directory, made if there is none. Raises `UnusableAuthority`."""
        certificate, key = directory / f"{AUTHORITY}.pem", directory / f"{AUTHORITY}.key"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if certificate.exists() != key.exists():
                raise UnusableAuthority(
                    f"{directory} has only one of {certificate.name} and {key.name}; restore the other, or remove it"
                )
            if not key.exists():
                made = cls.fresh(directory)
                made.save()
                return made
            loaded = serialization.load_pem_private_key(key.read_bytes(), None)
            if not isinstance(loaded, ec.EllipticCurvePrivateKey):
                raise UnusableAuthority(f"{key} is no key of this command; choose another directory")
            return cls(directory, x509.load_pem_x509_certificate(certificate.read_bytes()), loaded)
        except (OSError, ValueError, TypeError) as error:
            raise UnusableAuthority(f"cannot use {directory}: {error}; choose another directory") from None

    @classmethod
    def fresh(cls, directory: Path) -> "Authority":
        """Returns another authority for the directory, which is in none of its files yet."""
        own = ec.generate_private_key(ec.SECP256R1())
        name = _subject("quorumlog throw-away CA")
        made = (
            _builder(name, name, own.public_key(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(own.public_key()), critical=False)
            .sign(own, hashes.SHA256())
        )
        return cls(directory, made, own)

    def save(self, *trusted: "Authority") -> None:
        """Let the files of the directory hold this authority, and the certificates of others that are `trusted` too."""
        _write(self.directory / f"{AUTHORITY}.key", _pem_of(self._key), mode=0o600)
        _write(self.certificate, b"".join(each.pem for each in (self, *trusted)), mode=0o644)

    @property
    def pem(self) -> bytes:
        """The certificate of the authority itself."""
        pem: bytes = self._certificate.public_bytes(serialization.Encoding.PEM)
        return pem

    @property
    def number(self) -> str:
        """The serial number of the authority's certificate, shortened."""
        return f"{self._certificate.serial_number:x}"[:8]

    @property
    def certificate(self) -> Path:
        """The file with which the other side's certificate is checked."""
        return self.directory / f"{AUTHORITY}.pem"

    def issue_node(self, name: str, hosts: Iterable[str] = (), *, days: float = DAYS) -> TlsPaths:
        """Returns the files of a server, which is a client of others too. They are replaced if they were there.

        The certificate names `HOSTS` and `hosts`, names or addresses. With negative `days` it has expired.
        Raises `UnusableAuthority`.
        """
        return self._issue(
            name, (*HOSTS, *hosts), days, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        )

    def issue_client(self, name: str, *, days: float = DAYS) -> TlsPaths:
        """Returns the files of a client; as `issue_node`."""
        return self._issue(name, (), days, [ExtendedKeyUsageOID.CLIENT_AUTH])

    def files_of(self, name: str) -> TlsPaths:
        """Returns where the files of a name are."""
        endings = (".pem", ".key", ".keystore.pem")
        return TlsPaths(self.certificate, *(self.directory / f"{name}{ending}" for ending in endings))

    def _issue(self, name: str, hosts: Sequence[str], days: float, uses: list[x509.ObjectIdentifier]) -> TlsPaths:
        if not _NAME.fullmatch(name) or name == AUTHORITY:
            raise UnusableAuthority(
                f"{name!r} is no name for a certificate: it has 1 to 63 letters, digits, dots, - and _"
            )
        key, public_of = ec.generate_private_key(ec.SECP256R1()), self._certificate
        builder = (
            _builder(_subject(name), public_of.subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(each) for each in dict.fromkeys(hosts)])
            builder = builder.add_extension(names, critical=False)
        files = self.files_of(name)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        try:
            _write(files.key, _pem_of(key), mode=0o600)
            _write(files.certificate, certificate, mode=0o644)
            _write(files.keystore, _pem_of(key) + certificate, mode=0o600)
        except OSError as error:
            raise UnusableAuthority(f"cannot write {files.certificate}: {error.strerror}") from None
        return files


CLIENT: Final = "client"


class ClusterPapers:
    """The certificates of a cluster's members and of a client, all in one directory, and of the authority behind them.

    They are replaced while they are used, the authority with them, by `add`, `turn` and `drop`.
    """

    def __init__(self, directory: Path, members: Iterable[int], hosts: Iterable[str] = ()) -> None:
        """Make them, by the authority of the directory. Raises `UnusableAuthority`."""
        self._authority = Authority.at(directory)
        self._hosts = tuple(hosts)
        self.nodes: Mapping[int, TlsPaths] = {member: self._authority.files_of(f"node-{member}") for member in members}
        self.client = self._authority.files_of(CLIENT)
        self._others: tuple[Authority, ...] = ()
        self._issue()

    def add(self) -> str:
        """Trust a fresh authority in addition to the present one. Returns what is trusted."""
        self._others = (Authority.fresh(self._authority.directory),)
        return self._save()

    def turn(self) -> str:
        """Issue all certificates again, by the authority that was added; the earlier one is still trusted."""
        (following,) = self._others
        self._others, self._authority = (self._authority,), following
        told = self._save()
        self._issue()
        return told

    def drop(self) -> str:
        """Trust only the authority that has issued the present certificates."""
        self._others = ()
        return self._save()

    def _save(self) -> str:
        self._authority.save(*self._others)
        also = "".join(f", {other.number} is trusted too" for other in self._others)
        return f"authority {self._authority.number} issues{also}"

    def _issue(self) -> None:
        for member in self.nodes:
            self._authority.issue_node(f"node-{member}", self._hosts)
        self._authority.issue_client(CLIENT)


def certify(directory: Path, members: Iterable[int], hosts: Iterable[str] = ()) -> tuple[dict[int, TlsPaths], TlsPaths]:
    """Returns fresh files of each member of a cluster, and of a client, by the authority of `directory`.

    Raises `UnusableAuthority`.
    """
    papers = ClusterPapers(directory, members, hosts)
    return dict(papers.nodes), papers.client


def _subject(name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    ends = now + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - EARLIER)
        .not_valid_after(ends)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise UnusableAuthority(f"{host!r} is neither a name of a host nor an address") from None


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """Replace a file as a whole. It never has a wider mode than `mode`."""
    beside = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(content)
    beside.replace(path)
