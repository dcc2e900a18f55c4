"""One topic in each of two clusters: what producers do when one cluster is lost, and consumers when it comes back.

    from raft.two_topics import Compensate, Envelope, PairInbox

    inbox = PairInbox(Compensate())
    for number in (1, 3, 2):  # the lost cluster is back, and brings what it still held
        message = Envelope(writer="shop-1", number=number, epoch=1, sent_ms=0)
        print(number, inbox.take(1000, message, b"order-7").value)

- `Alternate` sends a message to one cluster, and to the other one after a failed attempt. `Hedge` sends it to both, at once
  or after a while, and the first acknowledgement counts.
- `Replay`, `DropLate`, `DropOldEpochs` and `Compensate` decide about what the lost cluster still held when it is back.

The deciders are pure: `sending` has those of a producer, `receiving` those of a consumer. The shells around clients are
`kafka_compat.topic_pair` and `rocketmq_compat.topic_pair`; the clients are yours, so that this needs no other package.
"""

TYPE_CHECKING = False  # for type checkers it is True; importing `typing` would take longer than all else here

__distribution__ = "quorumlog"

if TYPE_CHECKING:
    from raft.two_topics.envelope import Envelope, ForeignMessage
    from raft.two_topics.receiving import Compensate, DropLate, DropOldEpochs, PairInbox, Replay, Take
    from raft.two_topics.sending import Alternate, Hedge, PairOutbox

__all__ = [
    "Alternate",
    "Compensate",
    "DropLate",
    "DropOldEpochs",
    "Envelope",
    "ForeignMessage",
    "Hedge",
    "PairInbox",
    "PairOutbox",
    "Replay",
    "Take",
]

_MODULES = {
    "raft.two_topics.envelope": "Envelope ForeignMessage",
    "raft.two_topics.receiving": "Compensate DropLate DropOldEpochs PairInbox Replay Take",
    "raft.two_topics.sending": "Alternate Hedge PairOutbox",
}
"""The names of each module, which is imported when one of them is asked for."""

if not TYPE_CHECKING:
    from log.face import lazy

    __getattr__, __dir__ = lazy(globals())
