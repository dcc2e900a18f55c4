"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51): users and their passwords (KIP-554).

A client hashes the password itself; what it sends is enough to log in, so it belongs on a connection with TLS.
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, int8, int16, int32, octets, string


class DescribedUserName(Message):
    """A user that is asked for."""

    name: str = string()


class DescribeUserScramCredentialsRequest(Message):
    """Asks for users; none or null asks for all."""

    users: tuple[DescribedUserName, ...] | None = array(DescribedUserName, nullable="0+", default=None)


class ScramCredentialInfo(Message):
    """A mechanism that a user has a password for."""

    mechanism: int = int8()
    iterations: int = int32()


class DescribedUser(Message):
    """One user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    credential_infos: tuple[ScramCredentialInfo, ...] = array(ScramCredentialInfo, default=())


class DescribeUserScramCredentialsResponse(Message):
    """The users, without what would prove anything."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    results: tuple[DescribedUser, ...] = array(DescribedUser)


class ScramCredentialDeletion(Message):
    """The mechanism whose password a user loses."""

    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Message):
    """A new password for a mechanism: SaltedPassword of RFC 5802."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = octets()
    salted_password: bytes = octets()


class AlterUserScramCredentialsRequest(Message):
    """Changes credentials; of each user all or none."""

    deletions: tuple[ScramCredentialDeletion, ...] = array(ScramCredentialDeletion)
    upsertions: tuple[ScramCredentialUpsertion, ...] = array(ScramCredentialUpsertion)


class AlteredUser(Message):
    """The outcome for one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterUserScramCredentialsResponse(Message):
    """The outcome for each user."""

    throttle_time_ms: int = int32(default=0)
    results: tuple[AlteredUser, ...] = array(AlteredUser)


DESCRIBE_USER_SCRAM_CREDENTIALS = Api.of(
    50,
    "DescribeUserScramCredentials",
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    versions="0",
    flexible="0+",
)
ALTER_USER_SCRAM_CREDENTIALS = Api.of(
    51,
    "AlterUserScramCredentials",
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    versions="0",
    flexible="0+",
)
