"""Decides by RocketMQ's ACL 1.0: signatures of requests, accounts, and their permissions. Pure.

A client adds its access key to the ext fields of a request, and a signature: HMAC-SHA1 with the account's secret key over
the values of all other ext fields in the order of their names, and the body (AclClientRPCHook). A broker that has
accounts checks each request (PlainPermissionManager.validate):

1. An address in `globalWhiteRemoteAddresses` may do everything, and so may an account's own `whiteRemoteAddress`.
2. The access key is known, and the signature is right.
3. Some requests need an account with `admin`.
4. Each topic and group of the request is allowed by the account's permission for it, or by its default.

An account with `admin` and no permissions of its own may do everything.
"""

import base64
import enum
import hashlib
import hmac
import ipaddress
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from rocketmq_compat.remoting.bodies import HeartbeatData
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.frame import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""A field that clients up to 4.9.3 add after they have signed."""
VERSION_4_9_3: Final = 399
RETRY_PREFIX: Final = "%RETRY%"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
KEY_LENGTH_MIN: Final = 7


class Perm(enum.Flag):
    """A permission for a topic or a group. DENY outweighs the others."""

    DENY = enum.auto()
    PUB = enum.auto()
    SUB = enum.auto()

    @classmethod
    def parse(cls, text: str) -> "Perm":
        """Returns the permission of `PUB`, `SUB`, `PUB|SUB` or `DENY`. Raises `ValueError` for any other text."""
        found = cls(0)
        for part in text.split("|"):
            if part.strip() not in cls.__members__:
                raise ValueError(f"{text!r} is no permission: it can be DENY, PUB, SUB or PUB|SUB")
            found |= cls[part.strip()]
        return found


@attrs.define
class AclRefused(Exception):
    """A request is refused, in RocketMQ's words."""

    detail: str

    def __str__(self) -> str:
        return f"org.apache.rocketmq.acl.common.AclException: {self.detail}"


# -------------------------------------------------------------------- signatures


def signed_bytes(command: Command) -> bytes:
    """Returns what the signature of a request covers."""
    omitted = {SIGNATURE}
    if command.version <= VERSION_4_9_3:
        omitted.add(UNIQUE_KEY_QUERY)
    values = (value for name, value in sorted(command.ext.items()) if name not in omitted)
    return "".join(values).encode() + bytes(command.body)


def signature_of(content: bytes, secret_key: str) -> str:
    """Returns the signature, in Base64."""
    return base64.b64encode(hmac.digest(secret_key.encode(), content, hashlib.sha1)).decode()


@attrs.frozen
class Credentials:
    """An account as its user knows it."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    security_token: str | None = attrs.field(default=None, repr=False)

    def sign(self, command: Command) -> Command:
        """Returns the request with access key and signature."""
        ext = {**command.ext, ACCESS_KEY: self.access_key}
        if self.security_token is not None:
            ext[SECURITY_TOKEN] = self.security_token
        unsigned = attrs.evolve(command, ext=ext)
        return attrs.evolve(unsigned, ext={**ext, SIGNATURE: signature_of(signed_bytes(unsigned), self.secret_key)})


# -------------------------------------------------------------------- addresses


@attrs.frozen
class Addresses:
    """Addresses of clients: `*`, an address, or IPv4 with `*`, `1-100` or `{1,2}` for a part; several with commas."""

    text: str
    _any: bool = False
    _ranges: tuple[tuple[frozenset[int], ...], ...] = ()
    _exact: frozenset[object] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Addresses":
        """Returns the addresses. An empty text means none. Raises `ValueError` for what is no address."""
        text = text.strip()
        if text in ("*", "*.*.*.*", "*:*:*:*:*:*:*:*"):
            return cls(text, True)
        ranges: list[tuple[frozenset[int], ...]] = []
        exact: list[object] = []
        for part in _split_addresses(text):
            if ":" in part:
                exact.append(ipaddress.ip_address(part))
            else:
                ranges.append(_parse_ipv4(part))
        return cls(text, False, tuple(ranges), frozenset(exact))

    def match(self, host: str) -> bool:
        """Returns True if a client at this address is meant."""
        if self._any:
            return True
        if not self._ranges and not self._exact:
            return False
        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return False
        if address in self._exact:
            return True
        return address.version == 4 and any(
            all(octet in allowed for octet, allowed in zip(address.packed, allowed_octets, strict=True))
            for allowed_octets in self._ranges
        )


def _split_addresses(text: str) -> list[str]:
    """Splits at the commas outside of braces."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [each.strip() for each in parts if each.strip()]


def _parse_ipv4(text: str) -> tuple[frozenset[int], ...]:
    octets = [each.strip() for each in text.split(".")]
    if len(octets) != 4:
        raise ValueError(f"{text!r} is no address")
    return tuple([_parse_octet(each, text) for each in octets])


def _parse_octet(part: str, text: str) -> frozenset[int]:
    if part == "*":
        return frozenset(range(256))
    if part.startswith("{") and part.endswith("}"):
        return frozenset(_number(each.strip(), text) for each in part[1:-1].split(","))
    first, dash, last = part.partition("-")
    low = _number(first, text)
    high = _number(last, text) if dash else low
    if high < low:
        raise ValueError(f"{text!r} is no address: {part} is no range")
    return frozenset(range(low, high + 1))


def _number(part: str, text: str) -> int:
    if not (part.isascii() and part.isdigit() and len(part) <= 3 and int(part) <= 255):
        raise ValueError(f"{text!r} is no address")
    return int(part)


# -------------------------------------------------------------------- what a request needs

ADMIN_CODES: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.COPY_COMMIT_LOG,
        RequestCode.DECIDE_DIVERGENCE,
    }
)
"""Requests for an account with `admin` (Permission.ADMIN_CODE), and those of ours that are as mighty."""


def _group(name: str | None) -> Iterator[tuple[str, Perm]]:
    if name:
        yield RETRY_PREFIX + name, Perm.SUB


def _topic(name: str | None, perm: Perm) -> Iterator[tuple[str, Perm]]:
    if name:
        yield name, Perm.SUB if name.startswith(RETRY_PREFIX) else perm


def needed_by(command: Command) -> Iterator[tuple[str, Perm]]:
    """Yields the topics and groups of a request, groups by their retry topic, and what it needs of each.

    A request that is not listed here needs an account alone (PlainAccessResource.parse). Raises `BadBody` for a
    heartbeat that is none.
    """
    ext = command.ext
    match command.code:
        case RequestCode.SEND_MESSAGE:
            yield from _topic(ext.get("topic"), Perm.PUB)
        case RequestCode.SEND_MESSAGE_V2 | RequestCode.SEND_BATCH_MESSAGE:
            yield from _topic(ext.get("b"), Perm.PUB)
        case RequestCode.CONSUMER_SEND_MSG_BACK:
            yield from _topic(ext.get("originTopic"), Perm.PUB)
            yield from _group(ext.get("group"))
        case RequestCode.PULL_MESSAGE | RequestCode.LITE_PULL_MESSAGE | RequestCode.UPDATE_CONSUMER_OFFSET:
            yield from _topic(ext.get("topic"), Perm.SUB)
            yield from _group(ext.get("consumerGroup"))
        case RequestCode.QUERY_MESSAGE:
            yield from _topic(ext.get("topic"), Perm.SUB)
        case RequestCode.UNREGISTER_CLIENT | RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            yield from _group(ext.get("consumerGroup"))
        case RequestCode.HEART_BEAT:
            for consumer in HeartbeatData.decode(command.body).consumer_data_set:
                yield from _group(consumer.group_name)
                for subscription in consumer.subscription_data_set:
                    yield from _topic(subscription.topic, Perm.SUB)
        case _:
            return


# -------------------------------------------------------------------- accounts


@attrs.frozen(kw_only=True)
class Account:
    """An access key and its permissions. Groups are named by their retry topic, as topics are by their own."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    white_addresses: Addresses = Addresses("")
    admin: bool = False
    default_topic_perm: Perm = Perm.DENY
    default_group_perm: Perm = Perm.DENY
    perms: Mapping[str, Perm] = attrs.field(factory=dict)

    def require(self, command: Command) -> None:
        """Raises `AclRefused` for what the account may not do, and `BadBody` as `needed_by` does."""
        if command.code in ADMIN_CODES and not self.admin:
            raise AclRefused(
                f"Need admin permission for request code={int(command.code)}, but accessKey={self.access_key} is not"
            )
        if self.admin and not self.perms:
            return
        for name, needed in needed_by(command):
            if name == TRACE_TOPIC and needed is Perm.PUB:
                continue  # clients trace what they do, whatever they may do
            is_group = name.startswith(RETRY_PREFIX)
            default = self.default_group_perm if is_group else self.default_topic_perm
            owned = self.perms.get(name, default)
            if Perm.DENY in owned or needed not in owned:
                shown = f"group:{name.removeprefix(RETRY_PREFIX)}" if is_group else f"topic:{name}"
                raise AclRefused(f"No default permission for {shown}")


@attrs.frozen
class AclRules:
    """The accounts of a broker, by access key, and the addresses that need none."""

    accounts: Mapping[str, Account] = attrs.field(factory=dict)
    white_addresses: tuple[Addresses, ...] = ()

    def check(self, command: Command, host: str) -> str:
        """Returns the access key by which a request is admitted, empty for an address that needs none.

        Raises `AclRefused`, and `BadBody` for a heartbeat that is none.
        """
        if any(each.match(host) for each in self.white_addresses):
            return ""
        access_key = command.ext.get(ACCESS_KEY)
        if access_key is None:
            raise AclRefused("No accessKey is configured")
        account = self.accounts.get(access_key)
        if account is None:
            raise AclRefused(f"No acl config for {access_key}")
        if account.white_addresses.match(host):
            return access_key
        signature = signature_of(signed_bytes(command), account.secret_key)
        if not hmac.compare_digest(signature.encode(), command.ext.get(SIGNATURE, "").encode()):
            raise AclRefused(f"Check signature failed for accessKey={access_key}")
        account.require(command)
        return access_key
