"""Carries out changes of SCRAM credentials, of each user all or none (ScramControlManager)."""

from typing import Final

from kafka_compat.controller.changes import ImageChanges
from kafka_compat.controller.commands import AlterCredentials, CredentialChange, CredentialsAltered, UserAltered
from kafka_compat.controller.image import ClusterImage
from kafka_compat.controller.refusal import Refused
from kafka_compat.protocol.error_codes import KafkaErrorCode

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
USERS_MAX: Final = 100_000


def alter_credentials(command: AlterCredentials, changes: ImageChanges) -> CredentialsAltered:
    """Change what is asked for. Returns the result of each user, in the order in which they come first."""
    by_user: dict[str, list[CredentialChange]] = {}
    for change in command.changes:
        by_user.setdefault(change.user, []).append(change)
    results = []
    for user, wanted in by_user.items():
        try:
            _check(changes.image, user, wanted)
        except Refused as refused:
            results.append(UserAltered(user, refused.code, refused.message))
            continue
        for change in wanted:
            changes.set_credential(user, change.mechanism, change.credential)
        results.append(UserAltered(user))
    return CredentialsAltered(tuple(results))


def _check(image: ClusterImage, user: str, wanted: list[CredentialChange]) -> None:
    """Raises `Refused`."""
    if not user:
        raise Refused(KafkaErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len({change.mechanism for change in wanted}) < len(wanted):
        raise Refused(
            KafkaErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
        )
    known = image.credentials.get(user, {})
    for change in wanted:
        if change.credential is None:
            if change.mechanism not in known:
                raise Refused(
                    KafkaErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
        elif change.credential.iterations < ITERATIONS_MIN:
            raise Refused(KafkaErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        elif change.credential.iterations > ITERATIONS_MAX:
            raise Refused(KafkaErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not known and len(image.credentials) >= USERS_MAX:
        raise Refused(KafkaErrorCode.UNACCEPTABLE_CREDENTIAL, f"There are {USERS_MAX} users already")
