"""Each error of librdkafka has a meaning for a message: only what no retry can have stored is a failure."""

from confluent_kafka import KafkaError

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.systems.kafka.outcomes import NOT_QUEUED, outcome_of

ALL = {
    name: code
    for name in dir(KafkaError)
    if (name[0].isupper() or name[:2].isupper() or name[:1] == "_") and type(code := getattr(KafkaError, name)) is int
}
ALWAYS_REFUSED = {
    "MSG_SIZE_TOO_LARGE",
    "TOPIC_EXCEPTION",
    "INVALID_REQUIRED_ACKS",
    "INVALID_TIMESTAMP",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "POLICY_VIOLATION",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "INVALID_RECORD",
}
REFUSED_AT_FIRST = {
    "INVALID_MSG",
    "UNKNOWN_TOPIC_OR_PART",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "RECORD_LIST_TOO_LARGE",
    "NOT_ENOUGH_REPLICAS",
    "TOPIC_AUTHORIZATION_FAILED",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "_PURGE_QUEUE",
}


def test_every_error_of_librdkafka_has_the_outcome_that_it_proves() -> None:
    for name, code in sorted(ALL.items()):
        once, again = (outcome_of(code, may_retry=may_retry)[0] for may_retry in (False, True))
        if code == KafkaError.NO_ERROR:
            assert (once, again) == (Outcome.OK, Outcome.OK), name
        elif name in ALWAYS_REFUSED:
            assert (once, again) == (Outcome.FAIL, Outcome.FAIL), name
        elif name in REFUSED_AT_FIRST:
            assert (once, again) == (Outcome.FAIL, Outcome.INFO), name
        else:
            assert (once, again) == (Outcome.INFO, Outcome.INFO), name


def test_the_table_names_the_errors_that_it_means() -> None:
    assert len(ALL) > 150
    assert set(ALL) > ALWAYS_REFUSED | REFUSED_AT_FIRST
    assert outcome_of(KafkaError._MSG_TIMED_OUT, may_retry=False) == (Outcome.INFO, ErrorCode.TIMEOUT)
    assert outcome_of(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, may_retry=False)[0] is Outcome.INFO
    assert outcome_of(KafkaError.NOT_ENOUGH_REPLICAS, may_retry=False)[1] is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_message_that_librdkafka_did_not_take_was_never_sent() -> None:
    assert outcome_of(NOT_QUEUED, may_retry=True) == (Outcome.FAIL, ErrorCode.BUSY)
