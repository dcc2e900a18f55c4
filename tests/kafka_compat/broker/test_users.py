"""Users over the wire: what Kafka's tools ask and are told (KIP-554)."""

from kafka_compat.model import ScramMechanism
from kafka_compat.protocol.apis.scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    DescribedUserName,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.broker.cluster import Client, cluster

SHA_256, SHA_512 = ScramMechanism


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"s"
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=b"p" * 32
    )


def deletion(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter(client: Client, *items: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, str]:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in items if isinstance(each, ScramCredentialDeletion)),
        upsertions=tuple(each for each in items if isinstance(each, ScramCredentialUpsertion)),
    )
    answer = await client.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {each.user: KafkaErrorCode(each.error_code).name for each in answer.results}


async def describe(client: Client, *users: str) -> list[tuple[str, str, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=tuple(DescribedUserName(name=each) for each in users) or None)
    answer = await client.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    return [
        (
            each.user,
            KafkaErrorCode(each.error_code).name,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in answer.results
    ]


async def test_users_are_made_described_and_deleted_with_kafkas_errors_and_every_broker_knows_them() -> None:
    async with cluster(2) as brokers, brokers.client(1) as one, brokers.client(2) as two:
        assert await alter(one, upsertion("b"), upsertion("a", SHA_512, 8192), upsertion("a")) == {
            "b": "NONE",
            "a": "NONE",
        }
        await brokers.until(lambda: len(brokers.running[2].broker.image.credentials) == 2)
        everyone = [("a", "NONE", [(SHA_256, 4096), (SHA_512, 8192)]), ("b", "NONE", [(SHA_256, 4096)])]
        assert await describe(two) == everyone
        assert await describe(two, "b", "nobody", "a", "a") == [
            everyone[1],
            ("nobody", "RESOURCE_NOT_FOUND", []),
            ("a", "DUPLICATE_RESOURCE", []),
        ]
        assert await alter(
            two,
            deletion("nobody"),
            deletion("b"),
            upsertion("c", mechanism=3),
            upsertion("d", iterations=1),
            upsertion("e", salt=b""),
            upsertion("f"),
            upsertion("f"),
        ) == {
            "nobody": "RESOURCE_NOT_FOUND",
            "b": "NONE",
            "c": "UNSUPPORTED_SASL_MECHANISM",
            "d": "UNACCEPTABLE_CREDENTIAL",
            "e": "UNACCEPTABLE_CREDENTIAL",
            "f": "DUPLICATE_RESOURCE",
        }
        assert await describe(two) == everyone[:1]
