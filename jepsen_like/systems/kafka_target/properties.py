"""The properties of a client, from a file as Kafka's tools take it: for librdkafka, and for the harness's own requests."""

from collections.abc import Mapping
from typing import Any

from jepsen_like.operate.access import BrokerAccess, UnusableAccess, access_of
from jepsen_like.port.port import RunningCluster
from jepsen_like.systems.target.properties import wrong_file
from raft.net.certificates import UnusableFiles


def access_to(target: RunningCluster) -> BrokerAccess:
    """Returns what the file of a target gives. Raises `WrongMode` for one that cannot be used."""
    try:
        return access_of(None, target.properties)
    except (UnusableAccess, UnusableFiles) as error:
        raise wrong_file(error) from None


def librdkafka_config(access: BrokerAccess) -> Mapping[str, Any]:
    """Returns the same access as the settings of a client of librdkafka."""
    protocol = ("SASL_" if access.login else "") + ("SSL" if access.tls else "PLAINTEXT")
    config: dict[str, Any] = {"security.protocol": protocol}
    if access.login is not None:
        config |= {
            "sasl.mechanism": access.login.mechanism,
            "sasl.username": access.login.username,
            "sasl.password": access.login.password,
        }
    if access.tls is not None:
        files = access.tls.files
        places = {
            "ssl.ca.location": files.authority,
            "ssl.certificate.location": files.certificate,
            "ssl.key.location": files.key or files.certificate,
        }
        config |= {name: place for name, place in places.items() if place is not None}
        config["ssl.endpoint.identification.algorithm"] = "https" if files.checks_host else "none"
        config["enable.ssl.certificate.verification"] = files.checks_authority
    return config
