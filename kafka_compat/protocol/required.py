"""The operations that each API requires of its caller, with an authorizer (the table of KafkaApis and ControllerApis)."""

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from kafka_compat.acls import ResourceType
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.registry import APIS, BROKER_APIS

CLUSTER, TOPIC, GROUP = ResourceType.CLUSTER, ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


@frozen
class Required:
    """One operation on one kind of resource. `when` states when, or for what, if not always."""

    operation: AclOperation
    kind: ResourceType
    when: str = ""

    def __str__(self) -> str:
        return f"{self.operation.name} {self.kind.name}{' (' + self.when + ')' if self.when else ''}"


_A = AclOperation
REQUIRED: Final[Mapping[int, tuple[Required, ...]]] = {
    0: (Required(_A.WRITE, TOPIC), Required(_A.WRITE, TRANSACTIONAL_ID, "if it names one")),
    1: (Required(_A.READ, TOPIC, "consumers"), Required(_A.CLUSTER_ACTION, CLUSTER, "followers")),
    2: (Required(_A.DESCRIBE, TOPIC),),
    3: (
        Required(_A.DESCRIBE, TOPIC, "all topics: those that are allowed"),
        Required(_A.CREATE, CLUSTER, "to make a topic"),
        Required(_A.CREATE, TOPIC, "or this"),
    ),
    8: (Required(_A.READ, GROUP), Required(_A.READ, TOPIC)),
    9: (Required(_A.DESCRIBE, GROUP), Required(_A.DESCRIBE, TOPIC)),
    10: (Required(_A.DESCRIBE, GROUP), Required(_A.DESCRIBE, TRANSACTIONAL_ID)),
    11: (Required(_A.READ, GROUP),),
    12: (Required(_A.READ, GROUP),),
    13: (Required(_A.READ, GROUP),),
    14: (Required(_A.READ, GROUP),),
    15: (Required(_A.DESCRIBE, GROUP),),
    16: (Required(_A.DESCRIBE, CLUSTER), Required(_A.DESCRIBE, GROUP, "or those that are allowed")),
    17: (),
    18: (),
    19: (
        Required(_A.CREATE, CLUSTER),
        Required(_A.CREATE, TOPIC, "or this"),
        Required(_A.DESCRIBE_CONFIGS, TOPIC, "to see its settings"),
    ),
    20: (Required(_A.DELETE, TOPIC), Required(_A.DESCRIBE, TOPIC, "to see the name of an id")),
    21: (Required(_A.DELETE, TOPIC),),
    22: (
        Required(_A.IDEMPOTENT_WRITE, CLUSTER),
        Required(_A.WRITE, TOPIC, "or this, on any topic"),
        Required(_A.WRITE, TRANSACTIONAL_ID, "if it names one"),
    ),
    24: (
        Required(_A.WRITE, TRANSACTIONAL_ID, "clients"),
        Required(_A.WRITE, TOPIC, "clients"),
        Required(_A.CLUSTER_ACTION, CLUSTER, "brokers"),
    ),
    25: (Required(_A.WRITE, TRANSACTIONAL_ID), Required(_A.READ, GROUP)),
    26: (Required(_A.WRITE, TRANSACTIONAL_ID),),
    27: (Required(_A.CLUSTER_ACTION, CLUSTER), Required(_A.ALTER, CLUSTER, "or this")),
    28: (Required(_A.WRITE, TRANSACTIONAL_ID), Required(_A.READ, GROUP), Required(_A.READ, TOPIC)),
    61: (Required(_A.READ, TOPIC),),
    64: (Required(_A.ALTER, CLUSTER),),
    65: (Required(_A.DESCRIBE, TRANSACTIONAL_ID), Required(_A.DESCRIBE, TOPIC, "to see it")),
    66: (Required(_A.DESCRIBE, TRANSACTIONAL_ID, "those that are allowed"),),
    23: (Required(_A.DESCRIBE, TOPIC, "consumers"), Required(_A.CLUSTER_ACTION, CLUSTER, "followers")),
    29: (Required(_A.DESCRIBE, CLUSTER),),
    30: (Required(_A.ALTER, CLUSTER),),
    31: (Required(_A.ALTER, CLUSTER),),
    32: (
        Required(_A.DESCRIBE_CONFIGS, TOPIC),
        Required(_A.DESCRIBE_CONFIGS, GROUP),
        Required(_A.DESCRIBE_CONFIGS, CLUSTER, "brokers"),
    ),
    33: (
        Required(_A.ALTER_CONFIGS, TOPIC),
        Required(_A.ALTER_CONFIGS, GROUP),
        Required(_A.ALTER_CONFIGS, CLUSTER, "brokers"),
    ),
    35: (Required(_A.DESCRIBE, CLUSTER),),
    36: (),
    37: (Required(_A.ALTER, TOPIC),),
    42: (Required(_A.DELETE, GROUP),),
    43: (Required(_A.ALTER, CLUSTER),),
    44: (
        Required(_A.ALTER_CONFIGS, TOPIC),
        Required(_A.ALTER_CONFIGS, GROUP),
        Required(_A.ALTER_CONFIGS, CLUSTER, "brokers"),
    ),
    45: (Required(_A.ALTER, CLUSTER),),
    46: (Required(_A.DESCRIBE, CLUSTER),),
    47: (Required(_A.DELETE, GROUP), Required(_A.READ, TOPIC)),
    48: (Required(_A.DESCRIBE_CONFIGS, CLUSTER),),
    49: (Required(_A.ALTER_CONFIGS, CLUSTER),),
    50: (Required(_A.DESCRIBE, CLUSTER),),
    51: (Required(_A.ALTER, CLUSTER),),
    55: (Required(_A.DESCRIBE, CLUSTER),),
    57: (Required(_A.ALTER, CLUSTER),),
    60: (Required(_A.DESCRIBE, CLUSTER, "to see the operations"),),
    68: (Required(_A.READ, GROUP), Required(_A.DESCRIBE, TOPIC)),
    69: (Required(_A.DESCRIBE, GROUP), Required(_A.DESCRIBE, TOPIC)),
    74: (Required(_A.DESCRIBE_CONFIGS, CLUSTER),),
    75: (Required(_A.DESCRIBE, TOPIC, "all topics: those that are allowed"),),
    20001: (Required(_A.CLUSTER_ACTION, CLUSTER),),
    20002: (Required(_A.CLUSTER_ACTION, CLUSTER),),
}
"""By the keys of APIs. An API without any is open to everyone."""


def table() -> str:
    """Returns the APIs and what they require as a Markdown table, by key."""
    lines = ["| key | API | requires |", "|---|---|---|"]
    for key, api in sorted({**APIS, **BROKER_APIS}.items()):
        lines.append(f"| {key} | {api.name} | {', '.join(map(str, REQUIRED[key])) or '-'} |")
    return "\n".join(lines) + "\n"
