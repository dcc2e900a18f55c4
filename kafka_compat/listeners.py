"""The listeners of a broker, by Kafka's settings: names, addresses, and what each of them speaks. Pure.

Without `listeners` there is one, at `--listen`, named by the protocol that it speaks. Brokers connect to each other at
`inter.broker.listener.name`, which comes first here; the raft group of the controllers has that port, too.
"""

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from kafka_compat.config import InvalidSetting, Settings
from kafka_compat.config_keys import DEFAULT_PROTOCOL_MAP, OAUTHBEARER, PLAIN, SASL_MECHANISMS

Address = tuple[str, int]


class SecurityProtocol(enum.Enum):
    """The layers below Kafka's requests."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """True if connections speak TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """True if clients authenticate themselves before anything else."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@attrs.frozen
class ListenerPlan:
    """One listener."""

    name: str
    protocol: SecurityProtocol
    listen: Address
    advertised: Address | None = None
    """The address at which clients reach it, if it differs."""
    mechanisms: tuple[str, ...] = ()
    """Those by which clients prove who they are; none if they do not."""


def plan_listeners(
    settings: Settings, listen: Address | None, advertised: Address | None = None
) -> tuple[ListenerPlan, ...]:
    """Returns the listeners, that of the brokers first.

    `listen` and `advertised` are of the one that the brokers use, and replace what the settings say of it. Raises
    `InvalidSetting`.
    """
    protocols = _protocols(settings.text("listener.security.protocol.map") or DEFAULT_PROTOCOL_MAP)
    bound = _addresses("listeners", settings.text("listeners"))
    told = _addresses("advertised.listeners", settings.text("advertised.listeners"))
    own = _inter_broker(settings, protocols, bound)
    if not bound and listen is not None:
        bound = {own: listen}
    if not bound:
        raise InvalidSetting("listeners", "a broker needs an address: give --listen, or set listeners.")
    if own not in bound:
        raise InvalidSetting("listeners", f"listeners lacks {own}, by which brokers reach each other.")
    if unknown := next((name for name in told if name not in bound), None):
        raise InvalidSetting("advertised.listeners", f"advertised.listeners names {unknown}, which listeners lacks.")
    names = [own, *(name for name in bound if name != own)]
    plans = [_plan(settings, name, _protocol(name, protocols), bound[name], told.get(name)) for name in names]
    plans[0] = attrs.evolve(plans[0], listen=listen or plans[0].listen, advertised=advertised or plans[0].advertised)
    if plans[0].protocol.has_sasl:
        detail = f"{own} is {plans[0].protocol.value}: brokers reach each other by PLAINTEXT or SSL, and prove themselves in another way."
        raise InvalidSetting("inter.broker.listener.name", detail)
    if settings.text("ssl.keystore.location") is None and (
        lacking := next((each for each in plans if each.protocol.has_tls), None)
    ):
        raise InvalidSetting(
            "ssl.keystore.location",
            f"the listener {lacking.name} needs a certificate and its key: set ssl.keystore.location.",
        )
    _require_apart(plans)
    return tuple(plans)


def _plan(
    settings: Settings, name: str, protocol: SecurityProtocol, listen: Address, advertised: Address | None
) -> ListenerPlan:
    if not protocol.has_sasl:
        return ListenerPlan(name, protocol, listen, advertised)
    enabled = [each.strip() for each in (settings.text("sasl.enabled.mechanisms") or "").split(",") if each.strip()]
    if unknown := next((each for each in enabled if each not in SASL_MECHANISMS), None):
        detail = f"{unknown} in sasl.enabled.mechanisms is not implemented: there are {', '.join(SASL_MECHANISMS)}."
        raise InvalidSetting("sasl.enabled.mechanisms", detail)
    if OAUTHBEARER in enabled and not settings.flag("sasl.oauthbearer.unsecured"):
        detail = "OAUTHBEARER is served with unsigned tokens alone, in which a client names itself: set sasl.oauthbearer.unsecured=true in tests, else take SCRAM-SHA-512."
        raise InvalidSetting("sasl.enabled.mechanisms", detail)
    if not (protocol.has_tls or settings.flag("sasl.plain.without.tls")):
        enabled = [each for each in enabled if each != PLAIN]
    if not enabled:
        detail = f"the listener {name} has no mechanism: set sasl.enabled.mechanisms. PLAIN needs TLS, or sasl.plain.without.tls=true."
        raise InvalidSetting("sasl.enabled.mechanisms", detail)
    return ListenerPlan(name, protocol, listen, advertised, tuple(dict.fromkeys(enabled)))


def _inter_broker(settings: Settings, protocols: Mapping[str, SecurityProtocol], bound: Mapping[str, Address]) -> str:
    name = settings.text("inter.broker.listener.name")
    protocol = settings.text("security.inter.broker.protocol")
    if name is not None:
        return name.upper()
    if protocol is not None:
        return protocol
    if len(bound) == 1:
        return next(iter(bound))
    return SecurityProtocol.PLAINTEXT.value


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    found: dict[str, SecurityProtocol] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, colon, protocol = part.partition(":")
        if not colon or not name or protocol.upper() not in SecurityProtocol.__members__:
            detail = f"{part!r} in listener.security.protocol.map is no NAME:PROTOCOL; protocols are {', '.join(SecurityProtocol.__members__)}."
            raise InvalidSetting("listener.security.protocol.map", detail)
        if name.upper() in found:
            raise InvalidSetting(
                "listener.security.protocol.map", f"listener.security.protocol.map names {name} twice."
            )
        found[name.upper()] = SecurityProtocol[protocol.upper()]
    return found


def _protocol(name: str, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    if name not in protocols:
        detail = f"the listener {name} has no protocol; add {name}:SSL, for example, to listener.security.protocol.map."
        raise InvalidSetting("listeners", detail)
    return protocols[name]


def _addresses(setting: str, text: str | None) -> dict[str, Address]:
    """Returns the addresses in `NAME://HOST:PORT,...`, by name."""
    found: dict[str, Address] = {}
    for part in filter(None, (each.strip() for each in (text or "").split(","))):
        name, separator, place = part.partition("://")
        host, colon, port = place.rpartition(":")
        if not (separator and name and colon and port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise InvalidSetting(setting, f"{part!r} in {setting} is no NAME://HOST:PORT.")
        if not host:
            if setting != "listeners":
                raise InvalidSetting(setting, f"{part!r} in {setting} has no host, which clients need.")
            host = _ALL_HOSTS
        if name.upper() in found:
            raise InvalidSetting(setting, f"{setting} names {name} twice.")
        found[name.upper()] = host.strip("[]"), int(port)
    return found


_ALL_HOSTS: Final = "0.0.0.0"


def _require_apart(plans: list[ListenerPlan]) -> None:
    at: dict[Address, str] = {}
    for plan in plans:
        if plan.listen[1] and plan.listen in at:
            detail = (
                f"the listeners {at[plan.listen]} and {plan.name} have one address, {plan.listen[0]}:{plan.listen[1]}."
            )
            raise InvalidSetting("listeners", detail)
        at[plan.listen] = plan.name
