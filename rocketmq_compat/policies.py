"""Decides by RocketMQ's ACL 2.0: users with passwords, and policies that allow or deny them resources. Pure.

Clients sign as in ACL 1.0 (`acls`): the access key is a user's name, the secret key its password. A request of a user

1. needs an enabled user and a right signature (DefaultAuthenticationHandler);
2. is allowed to a user of type Super;
3. else needs an entry that allows each topic, group or the cluster that it names (AclAuthorizationHandler). Of the
   entries that fit resource, action and address those of the Custom policy count before those of the Default one. The
   most specific resource decides: literal names before prefixes, longer prefixes before shorter ones.

Requests that RocketMQ leaves to every user although they show or change the broker need the cluster here.
"""

import hmac
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

import attrs

from rocketmq_compat.acls import ACCESS_KEY, RETRY_PREFIX, SIGNATURE, signature_of, signed_bytes
from rocketmq_compat.remoting.bodies import (
    AclInfo,
    HeartbeatData,
    LockBatchRequestBody,
    PolicyEntryInfo,
    PolicyInfo,
    SubscriptionGroupConfig,
    UserInfo,
)
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.frame import Command

SUPER, NORMAL = "Super", "Normal"
ENABLE, DISABLE = "enable", "disable"
ALLOW, DENY = "Allow", "Deny"
CUSTOM, DEFAULT = "Custom", "Default"
TOPIC, GROUP, CLUSTER, NAMESPACE, ANY = "Topic", "Group", "Cluster", "Namespace", "Any"
PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST, ALL = "Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All"
ACTIONS: Final = (ALL, PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST)
USERS_MAX: Final = 10_000
ENTRIES_MAX: Final = 10_000
"""Of one user."""
NAME_LENGTH_MAX: Final = 255
_SUBJECT: Final = "User:"


@attrs.define
class AuthRefused(Exception):
    """A request is refused, in RocketMQ's words."""

    detail: str

    def __str__(self) -> str:
        return self.detail


@attrs.define
class AuthChangeRefused(AuthRefused):
    """A change of users or policies is refused."""


# -------------------------------------------------------------------- what is known


@attrs.frozen
class User:
    """A user; the password is kept as it is, since signatures are made of it."""

    username: str
    password: str = attrs.field(repr=False)
    is_super: bool = False
    is_enabled: bool = True

    def info(self) -> UserInfo:
        """Returns the user as requests have it."""
        return UserInfo(
            username=self.username,
            password=self.password,
            user_type=SUPER if self.is_super else NORMAL,
            user_status=ENABLE if self.is_enabled else DISABLE,
        )


@attrs.frozen
class Entry:
    """One entry of a policy. `name` is without the `*` behind a prefix; None stands for any name."""

    kind: str
    name: str | None
    is_prefix: bool
    actions: tuple[str, ...]
    source_ips: tuple[str, ...] = ()
    allows: bool = True

    @property
    def resource(self) -> str:
        """The resource as it is written."""
        if self.kind == ANY:
            return "*"
        return f"{self.kind}:{self.name or ''}{'*' if self.is_prefix or self.name is None else ''}"

    @classmethod
    def of(cls, info: PolicyEntryInfo) -> Self:
        """Returns an entry that was sent. Raises `AuthChangeRefused`."""
        kind, name, is_prefix = parse_resource(info.resource or "")
        actions = tuple(
            next((known for known in ACTIONS if known.lower() == each.lower()), "") for each in info.actions
        )
        if not actions:
            raise AuthChangeRefused("The actions is empty.")
        if "" in actions:
            raise AuthChangeRefused(
                "The actions can not be Any." if "Any" in info.actions else "The action is unknown."
            )
        for each in info.source_ips or ():
            _network(each)
        if info.decision not in (ALLOW, DENY):
            raise AuthChangeRefused("The decision is null or illegal.")
        return cls(kind, name, is_prefix, actions, tuple(info.source_ips or ()), info.decision == ALLOW)

    def info(self) -> PolicyEntryInfo:
        """Returns the entry as requests have it."""
        return PolicyEntryInfo(
            resource=self.resource,
            actions=self.actions,
            source_ips=self.source_ips or None,
            decision=ALLOW if self.allows else DENY,
        )

    def fits(self, need: "Need", host: str) -> bool:
        """Returns True if the entry decides about this need, from this address."""
        if self.kind not in (ANY, need.kind) or not (ALL in self.actions or set(need.actions) & set(self.actions)):
            return False
        is_named = self.name is None or (need.name.startswith(self.name) if self.is_prefix else need.name == self.name)
        return is_named and (not self.source_ips or _comes_from(host, self.source_ips))

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sorts the entry that decides first."""
        pattern = 2 if self.name is None else 1 if self.is_prefix else 0
        return self.kind == ANY, pattern, -len(self.name or "") if self.is_prefix else 0


def parse_resource(text: str) -> tuple[str, str | None, bool]:
    """Returns kind, name and whether it is a prefix. Raises `AuthChangeRefused`."""
    if text == "*":
        return ANY, None, False
    kind, colon, name = text.partition(":")
    found = next((each for each in (TOPIC, GROUP, CLUSTER, NAMESPACE) if each.lower() == kind.lower()), None)
    if found is None or not colon or not name or len(name) > NAME_LENGTH_MAX:
        raise AuthChangeRefused("The resource is null." if not text else "The resource type is null.")
    if name == "*":
        return found, None, False
    return found, name.removesuffix("*"), name.endswith("*")


def _network(text: str) -> "ipaddress.IPv4Network | ipaddress.IPv6Network":
    if not text.strip():
        raise AuthChangeRefused("The source ip is empty.")
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise AuthChangeRefused("The source ip is invalid.") from None


def _comes_from(host: str, networks: Sequence[str]) -> bool:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return any(address in _network(each) for each in networks)


# -------------------------------------------------------------------- what a request needs


@attrs.frozen
class Need:
    """One resource of a request. Any one of the actions is enough."""

    kind: str
    name: str
    actions: tuple[str, ...]


_OF_TOPIC: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: ("topic", (CREATE,)),
    RequestCode.DELETE_TOPIC_IN_BROKER: ("topic", (DELETE,)),
    RequestCode.SEND_REPLY_MESSAGE: ("topic", (PUB,)),
    RequestCode.SEND_REPLY_MESSAGE_V2: ("b", (PUB,)),
    RequestCode.QUERY_MESSAGE: ("topic", (SUB, GET)),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: ("topic", (GET,)),
    RequestCode.GET_MAX_OFFSET: ("topic", (GET,)),
    RequestCode.GET_MIN_OFFSET: ("topic", (GET,)),
    RequestCode.GET_EARLIEST_MSG_STORETIME: ("topic", (GET,)),
    RequestCode.VIEW_MESSAGE_BY_ID: ("topic", (GET,)),
    RequestCode.GET_TOPIC_STATS_INFO: ("topic", (GET,)),
    RequestCode.GET_TOPIC_CONFIG: ("topic", (GET,)),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: ("topic", (GET,)),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ("topic", (UPDATE,)),
}
"""The field of the topic, and what is needed of it."""
_OF_GROUP: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: ("group", (SUB,)),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ("consumerGroup", (SUB, GET)),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ("consumerGroup", (GET,)),
    RequestCode.GET_CONSUME_STATS: ("consumerGroup", (GET,)),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: ("groupName", (DELETE,)),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: ("group", (GET,)),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: ("group", (GET,)),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: ("group", (GET,)),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ("group", (UPDATE,)),
}
_OF_BOTH: Final[Mapping[int, tuple[str, ...]]] = {
    RequestCode.PULL_MESSAGE: (SUB,),
    RequestCode.LITE_PULL_MESSAGE: (SUB,),
    RequestCode.QUERY_CONSUMER_OFFSET: (SUB, GET),
    RequestCode.UPDATE_CONSUMER_OFFSET: (SUB, UPDATE),
}
"""Requests of a topic and a `consumerGroup`; the topic of a group's retries needs the group alone."""
_READS: Final = frozenset(
    {
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_BROKER_HA_STATUS,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.AUTH_GET_USER,
        RequestCode.AUTH_LIST_USER,
        RequestCode.AUTH_GET_ACL,
        RequestCode.AUTH_LIST_ACL,
    }
)
_FREE: Final = frozenset({RequestCode.CHECK_CLIENT_CONFIG, RequestCode.QUERY_BROKER_OFFSET})


def _about(topic: str | None, actions: tuple[str, ...]) -> Iterator[Need]:
    """Yields the need of a topic; that of a group's retries stands for the group."""
    if topic is None:
        return
    if topic.startswith(RETRY_PREFIX):
        yield Need(GROUP, topic.removeprefix(RETRY_PREFIX), (SUB,) if actions == (PUB,) else actions)
    else:
        yield Need(TOPIC, topic, actions)


def needs_of(command: Command, cluster: str) -> Iterator[Need]:
    """Yields what a request needs (DefaultAuthorizationContextBuilder). Raises `BadBody` for a body that is none."""
    code, ext = command.code, command.ext
    match code:
        case RequestCode.SEND_MESSAGE | RequestCode.END_TRANSACTION:
            yield from _about(ext.get("topic"), (PUB,))
        case RequestCode.SEND_MESSAGE_V2 | RequestCode.SEND_BATCH_MESSAGE:
            yield from _about(ext.get("b"), (PUB,))
        case RequestCode.HEART_BEAT:
            for consumer in HeartbeatData.decode(command.body).consumer_data_set:
                yield Need(GROUP, consumer.group_name, (SUB,))
                for each in consumer.subscription_data_set:
                    if not each.topic.startswith(RETRY_PREFIX):
                        yield Need(TOPIC, each.topic, (SUB,))
        case RequestCode.UNREGISTER_CLIENT:
            if group := ext.get("consumerGroup"):
                yield Need(GROUP, group, (SUB,))
        case RequestCode.LOCK_BATCH_MQ | RequestCode.UNLOCK_BATCH_MQ:
            body = LockBatchRequestBody.decode(command.body)
            yield Need(GROUP, body.consumer_group, (SUB,))
            for topic in sorted({queue.topic for queue in body.mq_set}):
                if not topic.startswith(RETRY_PREFIX):
                    yield Need(TOPIC, topic, (SUB,))
        case RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
            yield Need(GROUP, SubscriptionGroupConfig.decode(command.body).group_name, (CREATE,))
        case _ if code in _OF_BOTH:
            topic = ext.get("topic", "")
            if not topic.startswith(RETRY_PREFIX):
                yield Need(TOPIC, topic, _OF_BOTH[code])
            yield Need(GROUP, ext.get("consumerGroup", ""), _OF_BOTH[code])
        case _ if code in _OF_TOPIC or code in _OF_GROUP:
            if code in _OF_TOPIC:
                field, actions = _OF_TOPIC[code]
                yield from _about(ext.get(field, ""), actions)
            if code in _OF_GROUP:
                field, actions = _OF_GROUP[code]
                yield Need(GROUP, ext.get(field, ""), actions)
        case _:
            if code not in _FREE:
                yield Need(CLUSTER, cluster, (GET, LIST) if code in _READS else (UPDATE,))


# -------------------------------------------------------------------- the rules


@attrs.frozen
class AuthRules:
    """The users of a broker by name, and their policies: entries by type."""

    users: Mapping[str, User] = attrs.field(factory=dict)
    policies: Mapping[str, Mapping[str, tuple[Entry, ...]]] = attrs.field(factory=dict)

    def check(self, command: Command, host: str, cluster: str, *, authorizes: bool = True) -> User:
        """Returns the user that made a request. Raises `AuthRefused`, and `BadBody` for a body that is none."""
        name = command.ext.get(ACCESS_KEY)
        if not name:
            raise AuthRefused("username cannot be null.")
        user = self.users.get(name)
        if user is None:
            raise AuthRefused(f"User:{name[:NAME_LENGTH_MAX]} is not found.")
        if not user.is_enabled:
            raise AuthRefused(f"User:{name} is disabled.")
        signature = signature_of(signed_bytes(command), user.password)
        if not hmac.compare_digest(signature.encode(), command.ext.get(SIGNATURE, "").encode()):
            raise AuthRefused("check signature failed.")
        if authorizes and not user.is_super:
            for need in needs_of(command, cluster):
                self._require(user, need, host)
        return user

    def _require(self, user: User, need: Need, host: str) -> None:
        policies = self.policies.get(user.username, {})
        for kind in (CUSTOM, DEFAULT):
            fitting = [entry for entry in policies.get(kind, ()) if entry.fits(need, host)]
            if fitting:
                if min(fitting, key=lambda entry: entry.rank).allows:
                    return
                reason = "the decision is deny."
                break
        else:
            reason = "no matched policies."
        raise AuthRefused(
            f"User:{user.username} has no permission to access {need.kind}:{need.name[:NAME_LENGTH_MAX]} from {host}, {reason}"
        )

    # ---------------------------------------------------------------- users

    def create_user(self, info: UserInfo) -> "AuthRules":
        """Returns the rules with one more user. Raises `AuthChangeRefused`."""
        name = _username(info.username)
        if name in self.users:
            raise AuthChangeRefused("The user is existed")
        if not (info.password or "").strip():
            raise AuthChangeRefused("password can not be blank")
        if len(self.users) >= USERS_MAX:
            raise AuthChangeRefused(f"there are {USERS_MAX} users already")
        user = User(name, info.password or "", _is_super(info, before=False), _is_enabled(info, before=True))
        return attrs.evolve(self, users={**self.users, name: user})

    def update_user(self, info: UserInfo) -> "AuthRules":
        """Returns the rules with what is given of a user changed. Raises `AuthChangeRefused`."""
        name = _username(info.username)
        user = self.users.get(name)
        if user is None:
            raise AuthChangeRefused("The user is not exist")
        changed = User(
            name,
            info.password if info.password is not None and info.password.strip() else user.password,
            _is_super(info, before=user.is_super),
            _is_enabled(info, before=user.is_enabled),
        )
        return attrs.evolve(self, users={**self.users, name: changed})

    def delete_user(self, username: str | None) -> "AuthRules":
        """Returns the rules without a user and its policies. Raises `AuthChangeRefused`."""
        name = _username(username)
        return AuthRules(
            {each: user for each, user in self.users.items() if each != name},
            {each: policies for each, policies in self.policies.items() if each != name},
        )

    # ---------------------------------------------------------------- policies

    def with_acl(self, info: AclInfo) -> "AuthRules":
        """Returns the rules with the entries of an ACL, in place of those for the same resource.

        Raises `AuthChangeRefused`.
        """
        name = self.require_subject(info.subject)
        if not info.policies:
            raise AuthChangeRefused("The policies is empty.")
        known = dict(self.policies.get(name, {}))
        for policy in info.policies:
            kind = CUSTOM if policy.policy_type is None else policy.policy_type
            if kind not in (CUSTOM, DEFAULT):
                raise AuthChangeRefused("The policy type is illegal.")
            if not policy.entries:
                raise AuthChangeRefused("The policy entries is empty.")
            entries = {entry.resource: entry for entry in known.get(kind, ())}
            entries |= {entry.resource: entry for entry in map(Entry.of, policy.entries)}
            if len(entries) > ENTRIES_MAX:
                raise AuthChangeRefused(f"a user has at most {ENTRIES_MAX} entries")
            known[kind] = tuple(entries.values())
        return attrs.evolve(self, policies={**self.policies, name: known})

    def without_acl(self, subject: str | None, kind: str | None, resource: str | None) -> "AuthRules":
        """Returns the rules without what a user has on a resource; without one, without all that it has.

        Raises `AuthChangeRefused`.
        """
        name = self.require_subject(subject)
        if name not in self.policies:
            raise AuthChangeRefused("The acl is not exist.")
        left: dict[str, tuple[Entry, ...]] = {}
        if resource:
            parse_resource(resource)
            left = {
                each: tuple(entry for entry in entries if each != (kind or CUSTOM) or entry.resource != resource)
                for each, entries in self.policies[name].items()
            }
            left = {each: entries for each, entries in left.items() if entries}
        others = {each: policies for each, policies in self.policies.items() if each != name}
        return attrs.evolve(self, policies={**others, name: left} if left else others)

    def acl(self, name: str, resource: str = "") -> AclInfo | None:
        """Returns the ACL of a user, its entries whose resource contains a text; None if there are none."""
        found = {
            kind: tuple(entry.info() for entry in entries if resource in entry.resource)
            for kind, entries in self.policies.get(name, {}).items()
        }
        policies = tuple(PolicyInfo(policy_type=kind, entries=each) for kind, each in found.items() if each)
        return AclInfo(subject=_SUBJECT + name, policies=policies) if policies else None

    def require_subject(self, subject: str | None) -> str:
        """Returns the name of the user that a subject is. Raises `AuthChangeRefused` for one that is not there."""
        if not subject or not subject.startswith(_SUBJECT):
            raise AuthChangeRefused("The subject is null." if not subject else "The subject type is null.")
        name = subject.removeprefix(_SUBJECT)
        if name not in self.users:
            raise AuthChangeRefused(f"The subject of {subject[:NAME_LENGTH_MAX]} is not exist.")
        return name


def _username(name: str | None) -> str:
    if name is None or not name.strip():
        raise AuthChangeRefused("username can not be blank")
    if len(name) > NAME_LENGTH_MAX:
        raise AuthChangeRefused(f"a username has at most {NAME_LENGTH_MAX} characters")
    return name


def _is_super(info: UserInfo, *, before: bool) -> bool:
    return before if not info.user_type else info.user_type.lower() == SUPER.lower()


def _is_enabled(info: UserInfo, *, before: bool) -> bool:
    return before if not info.user_status else info.user_status.lower() == ENABLE
