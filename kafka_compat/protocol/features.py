"""Features of the cluster and their levels, as ApiVersions lists them (KIP-584), in terms of Apache Kafka 4.3."""

from typing import Final

from kafka_compat.protocol.apis.api_versions import FinalizedFeatureKey, SupportedFeatureKey

METADATA_LEVEL: Final = 30
"""`metadata.version` of Apache Kafka 4.3, whose requests are served; there is no other level to go to."""
ELIGIBLE: Final = "eligible.leader.replicas.version"
GROUPS: Final = "group.version"
GROUPS_LEVEL: Final = 1
"""Groups by KIP-848."""
TRANSACTIONS: Final = "transaction.version"
TRANSACTIONS_LEVEL: Final = 2
"""Each end of a transaction raises the epoch of a client that can take it (KIP-890)."""
SUPPORTED: Final = (
    SupportedFeatureKey(name=GROUPS, min_version=0, max_version=GROUPS_LEVEL),
    SupportedFeatureKey(name="metadata.version", min_version=METADATA_LEVEL, max_version=METADATA_LEVEL),
    SupportedFeatureKey(name=TRANSACTIONS, min_version=0, max_version=TRANSACTIONS_LEVEL),
    SupportedFeatureKey(name=ELIGIBLE, min_version=0, max_version=1),
)
_ZERO_VERSION: Final = 4
"""Clients that ask in an older version take no feature whose lowest level is 0 (KIP-1022)."""


def features(
    version: int, *, eligible: bool
) -> tuple[tuple[SupportedFeatureKey, ...], tuple[FinalizedFeatureKey, ...]]:
    """Returns the supported levels and the levels in force, for an answer in this version.

    `eligible` is true if KIP-966 is on.
    """
    supported = SUPPORTED if version >= _ZERO_VERSION else tuple(each for each in SUPPORTED if each.min_version)
    levels = levels_of(eligible=eligible)
    return supported, tuple(
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels.items()
        if level
    )


def levels_of(*, eligible: bool) -> dict[str, int]:
    """Returns the level in force of each feature; 0 is off."""
    return {
        "metadata.version": METADATA_LEVEL,
        GROUPS: GROUPS_LEVEL,
        TRANSACTIONS: TRANSACTIONS_LEVEL,
        ELIGIBLE: int(eligible),
    }
