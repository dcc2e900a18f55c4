"""One topic in each of two clusters: what producers do when one cluster is lost, and consumers when it comes back.

    from confluent_kafka import Consumer, Producer
    from kafka_compat.topic_pair import TwoTopicsConsumer, TwoTopicsProducer
    from two_topics import Alternate, Compensate

    producers = [Producer({"bootstrap.servers": servers}) for servers in ("a:9092", "b:9092")]
    producer = TwoTopicsProducer(producers, "orders", Alternate(attempt_s=0.3), writer="shop-1")
    producer.send(b"paid", key=b"order-7")
    producer.flush(10.0)

- `Alternate` sends a message to one cluster, and to the other one after a failed attempt. `Hedge` sends it to both, at once
  or after a while, and the first acknowledgement counts.
- `Replay`, `DropLate`, `DropOldEpochs` and `Compensate` decide about what the lost cluster still held when it is back.

The deciders are pure: `sending` has those of a producer, `receiving` those of a consumer. The shells around clients are
`kafka_compat.topic_pair` and `rocketmq_compat.topic_pair`; the clients are yours, so that this needs no other package.
"""

TYPE_CHECKING = False  # for type checkers it is True; importing `typing` would take longer than all else here

__distribution__ = "quorumlog"

if TYPE_CHECKING:
    from two_topics.envelope import Envelope, ForeignMessage
    from two_topics.receiving import Compensate, DropLate, DropOldEpochs, Inbox, Replay, Take
    from two_topics.sending import Alternate, Hedge, Outbox

__all__ = [
    "Alternate",
    "Compensate",
    "DropLate",
    "DropOldEpochs",
    "Envelope",
    "ForeignMessage",
    "Hedge",
    "Inbox",
    "Outbox",
    "Replay",
    "Take",
]

_MODULES = {
    "two_topics.envelope": "Envelope ForeignMessage",
    "two_topics.receiving": "Compensate DropLate DropOldEpochs Inbox Replay Take",
    "two_topics.sending": "Alternate Hedge Outbox",
}
"""The names of each module, which is imported when one of them is asked for."""

if not TYPE_CHECKING:
    from log.face import lazy

    __getattr__, __dir__ = lazy(globals())
