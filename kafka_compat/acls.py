"""Decides by Kafka's access control lists: the rules of StandardAuthorizer (KIP-11, KIP-290, KIP-801). Pure.

An ACL allows or denies a principal an operation, from a host, on the resources that its pattern matches. A LITERAL
pattern matches one name, or with the name `*` all names; a PREFIXED one matches the names that begin with it.

- A super user may do everything.
- An ACL that denies outweighs all that allow.
- READ, WRITE, DELETE and ALTER allow DESCRIBE as well, and ALTER_CONFIGS allows DESCRIBE_CONFIGS. A denial implies
  nothing but itself, and ALL stands for every operation.
- A resource that no ACL of anyone matches is denied, or with `allow.everyone.if.no.acl.found` allowed.
"""

import enum
import ipaddress
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import attrs
from attrs import define, frozen

from kafka_compat.protocol.authorized import EVERYTHING, AclOperation, bits_of

EVERYONE: Final = "User:*"
ANY_HOST: Final = "*"
WILDCARD: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
ACLS_MAX: Final = 10_000
"""ACLs of a cluster."""
TEXT_MAX: Final = 500
"""Characters of each text in an ACL."""
VIEWS_MAX: Final = 1_000
"""Principals at hosts whose rules are kept at hand."""
NAMES_MAX: Final = 50_000
"""Resources whose operations are kept at hand, of all principals together."""


class ResourceType(enum.IntEnum):
    """The kinds of resource, with Kafka's numbers."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """The ways in which a pattern, or a filter for patterns, matches a name; with Kafka's numbers."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(enum.IntEnum):
    """The effect of an ACL, with Kafka's numbers."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@frozen(order=True)
class Acl:
    """One access control list entry, with the pattern of its resources (AclBinding)."""

    kind: ResourceType
    name: str
    pattern: PatternType
    principal: str
    """A text `Type:name`; `User:*` stands for every principal."""
    host: str
    """An address, or `*` for every host."""
    operation: AclOperation
    permission: Permission


def problem_of(acl: Acl) -> str | None:
    """Returns the reason why an ACL cannot be made, in Kafka's words; None if it can."""
    texts = (acl.name, acl.principal, acl.host)
    if acl.kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {acl.kind.name}"
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {acl.pattern.name}"
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"Invalid permissionType {acl.permission.name}"
    if not acl.name:
        return "Resource name should not be empty"
    if acl.kind is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal[:TEXT_MAX]}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    if not acl.host:
        return "Host should not be empty"
    if max(map(len, texts)) > TEXT_MAX:
        return f"Name, principal and host have at most {TEXT_MAX} characters; a PREFIXED pattern may be shorter"
    return None


@frozen
class AclFilter:
    """ACLs that DescribeAcls and DeleteAcls mean (AclBindingFilter): None and ANY let everything pass.

    With MATCH a name selects the patterns that match it.
    """

    kind: ResourceType
    name: str | None
    pattern: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: Permission

    @property
    def has_unknown(self) -> bool:
        """True if a part of it is UNKNOWN."""
        return 0 in (self.kind, self.pattern, self.operation, self.permission)

    @property
    def only(self) -> Acl | None:
        """The one ACL that it can match, if it leaves nothing open."""
        if self.name is None or self.principal is None or self.host is None:
            return None
        if self.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            return None
        if ResourceType.ANY in (self.kind, self.operation, self.permission):
            return None
        return Acl(self.kind, self.name, self.pattern, self.principal, self.host, self.operation, self.permission)

    def matches(self, acl: Acl) -> bool:
        """Returns True if this ACL is meant."""
        return (
            self.kind in (ResourceType.ANY, acl.kind)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern is not PatternType.MATCH:
            return False
        return acl.name == WILDCARD if acl.pattern is PatternType.LITERAL else self.name.startswith(acl.name)


@define
class AclTable:
    """The ACLs of a cluster. `version` grows with every change."""

    version: int = attrs.field(default=0, eq=False)
    _of_principal: dict[str, dict[Acl, None]] = attrs.field(factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._of_principal.get(acl.principal, ())

    def all(self) -> list[Acl]:
        """Returns all ACLs, sorted."""
        return sorted(acl for acls in self._of_principal.values() for acl in acls)

    def of(self, principal: str) -> Iterable[Acl]:
        """Returns the ACLs that name this principal."""
        return self._of_principal.get(principal, ())

    def patterns(self) -> Iterable[Acl]:
        """Returns all ACLs in any order."""
        return (acl for acls in self._of_principal.values() for acl in acls)

    def select(self, wanted: AclFilter) -> list[Acl]:
        """Returns the ACLs that a filter matches, sorted."""
        only = wanted.only
        if only is not None:
            return [only] if only in self else []
        among = self.patterns() if wanted.principal is None else self.of(wanted.principal)
        return sorted(filter(wanted.matches, among))

    def add(self, acl: Acl) -> None:
        """Add an ACL that is not there."""
        self._of_principal.setdefault(acl.principal, {})[acl] = None
        self._count += 1
        self.version += 1

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is there."""
        acls = self._of_principal[acl.principal]
        del acls[acl]
        if not acls:
            del self._of_principal[acl.principal]
        self._count -= 1
        self.version += 1

    def replace(self, acls: Iterable[Acl]) -> None:
        """Have these ACLs alone."""
        self._of_principal.clear()
        self._count = 0
        self.version += 1
        for acl in acls:
            self.add(acl)


_ALLOW, _DENY = 0, 1
_IMPLIED: Final[Mapping[AclOperation, int]] = {
    AclOperation.DESCRIBE: bits_of(AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: bits_of(AclOperation.ALTER_CONFIGS),
}
"""The operations that allow another one as well."""


_BITS: Final = [EVERYTHING if each is AclOperation.ALL else 1 << each for each in AclOperation]
"""The bits of the operations, by their numbers."""


@define
class _Patterns:
    """The ACLs for one kind of resource, by name: pairs of allowed and denied operations."""

    literal: dict[str, list[int]] = attrs.field(factory=dict)
    prefixed: dict[str, list[int]] = attrs.field(factory=dict)
    lengths: list[int] = attrs.field(factory=list)
    """Of the prefixes, each once."""

    def add(self, acl: Acl) -> None:
        """Take an ACL into account."""
        pairs = self.literal if acl.pattern is PatternType.LITERAL else self.prefixed
        pair = pairs.get(acl.name)
        if pair is None:
            pair = pairs[acl.name] = [0, 0]
            if pairs is self.prefixed and len(acl.name) not in self.lengths:
                self.lengths.append(len(acl.name))
        pair[_ALLOW if acl.permission is Permission.ALLOW else _DENY] |= _BITS[acl.operation]

    def matching(self, name: str) -> list[list[int]]:
        """Returns the pairs of all patterns that match a name."""
        found = [self.literal.get(name), self.literal.get(WILDCARD)]
        found += [self.prefixed.get(name[:length]) for length in self.lengths if length <= len(name)]
        return [pair for pair in found if pair is not None]


@define
class _View:
    """The ACLs of one principal at one host, and decisions by name; both by the number of the resource's kind."""

    patterns: list[_Patterns] = attrs.field(factory=lambda: [_Patterns() for _ in ResourceType])
    known: list[dict[str, int]] = attrs.field(factory=lambda: [{} for _ in ResourceType])


@define(eq=False)
class Authorizer:
    """Decides by the ACLs of a table, which may change at any time between two questions."""

    acls: AclTable
    super_users: frozenset[str] = frozenset()
    allows_if_none: bool = False
    """allow.everyone.if.no.acl.found."""
    _version: int = -1
    _views: OrderedDict[tuple[str, str], _View] = attrs.field(factory=OrderedDict)
    _everyone: dict[ResourceType, _Patterns] = attrs.field(factory=dict)
    """The patterns of all ACLs, if they are asked for."""
    _known: int = 0

    def allows(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Returns True if the principal may do this from this host."""
        return bool(self.operations(principal, host, kind, name) >> operation & 1)

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """Returns the bits of all operations that the principal may do with a resource from this host."""
        if principal in self.super_users:
            return EVERYTHING
        view = self._view(principal, host)
        known = view.known[kind].get(name)
        if known is None:
            known = self._decide(view, kind, name)
            self._keep(view, kind, name, known)
        return known

    def allows_any(self, principal: str, host: str, operation: AclOperation, kind: ResourceType) -> bool:
        """Returns True if there may be a resource of this kind with which the principal may do this (KIP-679).

        As in Kafka, where an operation implies others, only the ACLs that name it, or ALL, count here.
        """
        if self.allows(principal, host, operation, kind, "hardcode"):
            return True  # super users, and those who may do so with any name
        patterns = self._view(principal, host).patterns[kind]
        bit = 1 << operation
        denied = {name for name, pair in patterns.literal.items() if pair[_DENY] & bit}
        denied_prefixes = {name for name, pair in patterns.prefixed.items() if pair[_DENY] & bit}
        if WILDCARD in denied:
            return False

        def is_denied(name: str) -> bool:
            return any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))

        allowed = {name for name, pair in patterns.literal.items() if pair[_ALLOW] & bit}
        if WILDCARD in allowed:
            return True
        prefixes = [name for name, pair in patterns.prefixed.items() if pair[_ALLOW] & bit]
        return any(not is_denied(name) for name in (*(allowed - denied), *prefixes))

    def _decide(self, view: _View, kind: ResourceType, name: str) -> int:
        pairs = view.patterns[kind].matching(name)
        if not pairs:
            return EVERYTHING if self.allows_if_none and not self._has_any(kind, name) else 0
        allowed = denied = 0
        for pair in pairs:
            allowed |= pair[_ALLOW]
            denied |= pair[_DENY]
        for operation, implying in _IMPLIED.items():
            if allowed & implying:
                allowed |= 1 << operation
        return allowed & ~denied

    def _has_any(self, kind: ResourceType, name: str) -> bool:
        """Returns True if an ACL of anyone matches this resource."""
        if not self._everyone and len(self.acls):
            for acl in self.acls.patterns():
                self._everyone.setdefault(acl.kind, _Patterns()).add(acl)
        patterns = self._everyone.get(kind)
        return patterns is not None and bool(patterns.matching(name))

    def _view(self, principal: str, host: str) -> _View:
        if self._version != self.acls.version:
            self._forget_all()
            self._version = self.acls.version
        view = self._views.get((principal, host))
        if view is not None:
            return view
        if len(self._views) >= VIEWS_MAX:
            self._known -= sum(map(len, self._views.popitem(last=False)[1].known))
        view = self._views[principal, host] = _View()
        hosts = (ANY_HOST, *_host_names(host))
        for acl in (*self.acls.of(principal), *(self.acls.of(EVERYONE) if principal != EVERYONE else ())):
            if acl.host in hosts:
                view.patterns[acl.kind].add(acl)
        return view

    def _keep(self, view: _View, kind: ResourceType, name: str, decision: int) -> None:
        if self._known >= NAMES_MAX:
            self._known = 0
            for names in [names for other in self._views.values() for names in other.known]:
                names.clear()
        view.known[kind][name] = decision
        self._known += 1

    def _forget_all(self) -> None:
        self._views.clear()
        self._everyone.clear()
        self._known = 0


def _host_names(host: str) -> tuple[str, ...]:
    """Returns the ways to write an address: IPv6 in full, as Java does, and in short."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return (host,)
    if address.version == 4:
        return (host,)
    return address.compressed, ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


def parse_super_users(text: str) -> frozenset[str]:
    """Returns the principals in `Type:name;Type:name`. Raises `ValueError` for one without a colon."""
    users = [each.strip() for each in text.split(";") if each.strip()]
    for user in users:
        if ":" not in user:
            raise ValueError(f"{user!r} is no principal: write Type:name, as in User:admin")
    return frozenset(users)
