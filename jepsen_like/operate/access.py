"""Shows brokers who the operator is: a file of properties, as clients of Kafka and RocketMQ have them.

    security.protocol=SASL_SSL             accessKey=operator
    sasl.mechanism=SCRAM-SHA-512           secretKey=...
    sasl.username=operator
    sasl.password=...
    ssl.ca.location=ca.pem

The names are Kafka's (`--command-config` of its tools) and librdkafka's; those of RocketMQ are mqadmin's (`tools.yml`).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from raft.net.certificates import Certificates, TlsFiles

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SECURITY: Final = re.compile(r"(?:security|sasl|ssl|enable\.ssl)\.|accessKey$|secretKey$")
_LINE: Final = re.compile(r"(?P<name>(?:\\.|[^\\:=\s])+)\s*(?:[:=]\s*|\s|$)(?P<value>.*)", re.DOTALL)
_JAAS: Final = re.compile(r"\s*[\w.$]*\b(?:Plain|Scram)LoginModule\s+\w+\s+(?P<options>.*?);\s*", re.DOTALL)
_OPTION: Final = re.compile(r"""(?P<name>\w+)\s*=\s*(?:"(?P<quoted>(?:\\.|[^"\\])*)"|(?P<bare>[^\s;"]+))\s*""")


class UnusableAccess(ValueError):
    """The properties cannot be used; the text names the one and what it needs."""


@attrs.frozen
class Login:
    """A user of Kafka's."""

    mechanism: str
    username: str
    password: str = attrs.field(repr=False)


@attrs.frozen
class AccessKeys:
    """An account of RocketMQ's."""

    access_key: str
    secret_key: str = attrs.field(repr=False)


@attrs.frozen
class BrokerAccess:
    """The beginning of each connection to a broker."""

    tls: Certificates | None = None
    login: Login | None = None
    keys: AccessKeys | None = None


OPEN: Final = BrokerAccess()
"""For clusters that admit everyone."""


def access_of(tls: TlsFiles | None, config: Path | None) -> BrokerAccess:
    """Returns the access that the flags of TLS and a file of properties give; flags count before the file.

    Raises `UnusableAccess` and `UnusableFiles`.
    """
    properties: dict[str, str] = {}
    if config is not None:
        try:
            properties = read_properties(config.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise UnusableAccess(f"cannot read {config}: {getattr(error, 'strerror', None) or error}") from None
    login, keys = _login_of(properties), _keys_of(properties)
    named = _tls_of(properties)
    if unknown := sorted(name for name in properties if _SECURITY.match(name)):
        raise UnusableAccess(f"{unknown[0]} is not known here; take it out")
    files = tls or named
    return BrokerAccess(None if files is None else Certificates(files), login, keys)


def read_properties(text: str) -> dict[str, str]:
    """Returns the names and values of a file of properties, as Java reads them. Raises `UnusableAccess`."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for number, first in enumerate(lines, 1):
        line = first.strip()
        while len(line) - len(line.rstrip("\\")) & 1:
            line = line[:-1] + next(lines, "").strip()
        if not line or line[0] in "#!":
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise UnusableAccess(f"line {number} is not of the form NAME=VALUE")
        found[_unescape(parts["name"])] = _unescape(parts["value"])
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _login_of(properties: dict[str, str]) -> Login | None:
    """Takes the names of SASL out. Returns the user that they name; None if there is none."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    mechanism = properties.pop("sasl.mechanism", None) or properties.pop("sasl.mechanisms", None)
    properties.pop("sasl.mechanisms", None)
    user, password = properties.pop("sasl.username", None), properties.pop("sasl.password", None)
    if (jaas := properties.pop("sasl.jaas.config", None)) is not None:
        options = _jaas_options(jaas)
        user, password = options.get("username"), options.get("password")
    if protocol not in PROTOCOLS:
        raise UnusableAccess(f"security.protocol is {protocol}; there are {', '.join(PROTOCOLS)}")
    if not protocol.startswith("SASL_"):
        if mechanism or user:
            raise UnusableAccess("a user needs security.protocol=SASL_SSL (or SASL_PLAINTEXT)")
        return None
    if mechanism not in MECHANISMS:
        raise UnusableAccess(f"sasl.mechanism is {mechanism or 'missing'}; there are {', '.join(MECHANISMS)}")
    if not user or not password:
        raise UnusableAccess("sasl.username and sasl.password are missing (or sasl.jaas.config with both)")
    return Login(mechanism, user, password)


def _jaas_options(text: str) -> Mapping[str, str]:
    found = _JAAS.fullmatch(text)
    if found is None:
        raise UnusableAccess('sasl.jaas.config is no `...LoginModule required username="..." password="...";`')
    return {
        option["name"]: option["bare"] if option["quoted"] is None else _unescape(option["quoted"])
        for option in _OPTION.finditer(found["options"])
    }


def _keys_of(properties: dict[str, str]) -> AccessKeys | None:
    access, secret = properties.pop("accessKey", None), properties.pop("secretKey", None)
    if access and secret:
        return AccessKeys(access, secret)
    if access or secret:
        raise UnusableAccess("accessKey and secretKey go together")
    return None


def _tls_of(properties: dict[str, str]) -> TlsFiles | None:
    """Takes the names of TLS out. Returns the files that they name; None without TLS."""
    protocol = properties.pop("security.protocol", "PLAINTEXT").upper()
    for store in ("truststore", "keystore"):
        kind = properties.pop(f"ssl.{store}.type", "PEM")
        if f"ssl.{store}.location" in properties and kind.upper() != "PEM":
            raise UnusableAccess(f"ssl.{store}.type is {kind}; a file of PEM is needed, and ssl.{store}.type=PEM")
    authority = properties.pop("ssl.truststore.location", None)
    certificate = properties.pop("ssl.keystore.location", None)
    algorithm = properties.pop("ssl.endpoint.identification.algorithm", "https")
    files = TlsFiles(
        authority=properties.pop("ssl.ca.location", authority),
        certificate=properties.pop("ssl.certificate.location", certificate),
        key=properties.pop("ssl.key.location", None),
        checks_host=algorithm not in ("", "none"),
        checks_authority=properties.pop("enable.ssl.certificate.verification", "true").lower() != "false",
    )
    return files if protocol.endswith("SSL") else None
