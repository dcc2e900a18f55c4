"""Credentials of users in the metadata: of each user all changes or none, with Kafka's errors, and in snapshots."""

from kafka_compat.controller.commands import AlterCredentials, CredentialChange, CredentialsAltered, RegisterBroker
from kafka_compat.controller.credentials import ITERATIONS_MAX, ITERATIONS_MIN
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import Endpoint, ScramCredential, ScramMechanism
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.controller.world import World, three_brokers, uuid

SHA_256, SHA_512 = ScramMechanism
NONE = KafkaErrorCode.NONE


def credential(iterations: int = ITERATIONS_MIN) -> ScramCredential:
    return ScramCredential(b"salt", b"stored", b"server", iterations)


def alter(world: World, *changes: CredentialChange) -> dict[str, KafkaErrorCode]:
    altered = world.do(AlterCredentials(changes), CredentialsAltered)
    return {each.user: each.error for each in altered.users}


def test_a_user_has_a_credential_for_each_mechanism_and_none_once_all_are_deleted() -> None:
    world = World()
    image = world.machine.image
    given = [CredentialChange("u", each, credential()) for each in ScramMechanism]
    assert alter(world, *given, CredentialChange("v", SHA_256, credential(5000))) == {"u": NONE, "v": NONE}
    assert image.credentials == {"u": dict.fromkeys(ScramMechanism, credential()), "v": {SHA_256: credential(5000)}}
    assert [delta.users for delta in world.machine.drain_changes()] == [("u", "v")]
    assert alter(world, CredentialChange("u", SHA_256)) == {"u": NONE}
    assert alter(world, CredentialChange("v", SHA_256)) == {"v": NONE}
    assert image.credentials == {"u": {SHA_512: credential()}}


def test_of_a_user_all_changes_are_made_or_none_and_of_others_regardless() -> None:
    world = World()
    alter(world, CredentialChange("u", SHA_256, credential()))
    before = world.machine.snapshot()
    refused = {
        "": (CredentialChange("", SHA_256, credential()),),
        "u": (CredentialChange("u", SHA_256), CredentialChange("u", SHA_512)),
        "w": (CredentialChange("w", SHA_256, credential()), CredentialChange("w", SHA_256, credential())),
        "few": (CredentialChange("few", SHA_256, credential(ITERATIONS_MIN - 1)),),
        "many": (CredentialChange("many", SHA_512, credential(ITERATIONS_MAX + 1)),),
    }
    assert alter(world, *(change for changes in refused.values() for change in changes)) == {
        "": KafkaErrorCode.UNACCEPTABLE_CREDENTIAL,
        "u": KafkaErrorCode.RESOURCE_NOT_FOUND,
        "w": KafkaErrorCode.DUPLICATE_RESOURCE,
        "few": KafkaErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": KafkaErrorCode.UNACCEPTABLE_CREDENTIAL,
    }
    world.machine.image.index -= 1
    assert world.machine.snapshot() == before
    assert alter(world, *refused["u"], CredentialChange("x", SHA_512, credential())) == {
        "u": KafkaErrorCode.RESOURCE_NOT_FOUND,
        "x": NONE,
    }
    assert set(world.machine.image.credentials) == {"u", "x"}


def test_credentials_and_endpoints_come_back_from_a_snapshot() -> None:
    world = three_brokers()
    alter(world, CredentialChange("b", SHA_512, credential()), CredentialChange("a", SHA_256, credential()))
    world.do(RegisterBroker(9, uuid(9), "h", 1, endpoints=(Endpoint("SSL", "h", 2), Endpoint("X", "h", 3))), object)
    restored = MetadataMachine()
    restored.restore(world.machine.snapshot())
    assert restored.image == world.machine.image
    assert restored.snapshot() == world.machine.snapshot()
    alter(world, CredentialChange("c", SHA_512, credential()))
    assert set(restored.image.credentials) == {"a", "b"}


def test_a_credential_shows_nothing_of_the_password() -> None:
    assert repr(credential()) == "ScramCredential(iterations=4096)"
