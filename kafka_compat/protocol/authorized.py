"""The operations that a client may carry out, as one number with a bit for each (KIP-430).

Without an authorizer every client may do all operations of a resource, as in Apache Kafka.
"""

import enum
from typing import Final

NOT_ASKED: Final = -(2**31)
"""The answer to a request that does not ask for the operations."""


class AclOperation(enum.IntEnum):
    """Kafka's operations, with the number of their bit. UNKNOWN and ANY occur in filters and bad requests alone."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def bits_of(*operations: AclOperation) -> int:
    """Returns the number with the bits of these operations."""
    return sum(1 << each for each in operations)


_CONFIGS: Final = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
ON_TOPIC: Final = bits_of(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    *_CONFIGS,
)
ON_CLUSTER: Final = bits_of(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
    *_CONFIGS,
)
ON_GROUP: Final = bits_of(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_CONFIGS)
EVERYTHING: Final = bits_of(*(each for each in AclOperation if each > AclOperation.ALL))
