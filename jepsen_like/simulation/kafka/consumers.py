"""Members of a simulated group by KIP-848: they send heartbeats, and the coordinator gives them partitions.

A member gives up what an answer leaves out, and states that in its next heartbeat. All else, such as commits that come
late and deaths without a word, is as for classic members.
"""

from typing import Any

from jepsen_like.simulation.kafka.clients import BRIEF, TOPIC
from jepsen_like.simulation.kafka.group_truth import Term
from jepsen_like.simulation.kafka.members import GROUP, MemberState, SimulatedMember
from jepsen_like.simulation.kafka.transactors import LEDGER
from jepsen_like.simulation.kafka.wire import Tap
from kafka_compat.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode

VERSION = 1
LEAVES = -1
TOPICS = (TOPIC, BRIEF, LEDGER)
PLACES = 10
"""The partitions of the n-th topic are numbered from n times this on."""
STATES_ALL = 0.7
"""The probability that a heartbeat states the partitions, although they have not changed."""
_BEGINS_AGAIN = (
    KafkaErrorCode.UNKNOWN_MEMBER_ID,
    KafkaErrorCode.FENCED_MEMBER_EPOCH,
    KafkaErrorCode.GROUP_ID_NOT_FOUND,
    KafkaErrorCode.UNRELEASED_INSTANCE_ID,
)


class SimulatedConsumer(SimulatedMember):
    """One consumer. Its generation is its epoch."""

    def _begin(self) -> None:
        super()._begin()
        self._member_id = f"c{self.number}-{self._lives}"
        self._stated: frozenset[int] | None = None
        """The partitions that the last answered heartbeat stated."""
        self._topic_ids: dict[int, bytes] = {}
        self._beats = 0

    def _join(self) -> None:
        self._lose()
        self._state, self._stated, self._generation = MemberState.JOINING, None, -1
        self._beat(0)

    def _heartbeat(self) -> None:
        self._beat(self._generation)

    def _beat(self, epoch: int) -> None:
        self._beats += 1
        number, asked_at, stated = self._beats, self._world.now, None
        if epoch == 0 or self._stated != self._owned or self._rng.random() < STATES_ALL:
            stated = self._owned
        session_ms = round(self._knobs.session_s * 1e3)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._instance,
            rebalance_timeout_ms=2 * session_ms if stated is not None else -1,
            subscribed_topic_names=TOPICS if stated is not None else None,
            topic_partitions=None if stated is None else self._pack(stated),
        )
        member, truth, name = self._member_id, self._truth, self._instance or self._member_id

        def tap(term: Term) -> Tap:
            era = truth.era
            response = yield
            if response.error_code == KafkaErrorCode.NONE and era == truth.era:
                truth.on_epoch(member, response.member_epoch)
                if response.assignment is not None:
                    truth.on_assigned(response.member_epoch, name, frozenset(self._unpack(response)))

        def on_done(response: Any) -> None:
            if number != self._beats:
                return  # a later heartbeat is under way, as on one connection
            if response.error_code == KafkaErrorCode.NONE:
                self._on_beat(response, asked_at, stated)
            elif response.error_code in _BEGINS_AGAIN:
                self._world.counts["consumers_fenced"] += 1
                self._lose()

        within_s = self._knobs.request_s if epoch == 0 else 0.0
        self._wire.ask_group(
            request, VERSION, self._ask(on_done, within_s, waits=epoch == 0), tap=tap, knows_topics=True
        )

    def _on_beat(self, response: Any, asked_at: float, stated: frozenset[int] | None) -> None:
        if self._state is MemberState.JOINING:
            self._world.counts["consumer_joins"] += 1
        self._state = MemberState.STABLE
        if response.member_epoch != self._generation:
            self._commits = {}  # what is under way in the epoch before is refused
        self._generation = response.member_epoch
        self._alive_until = asked_at + self._knobs.session_s
        if stated is not None:
            self._stated = stated
        if response.assignment is not None:
            self._owned = frozenset(self._unpack(response))
            self._positions = {each: at for each, at in self._positions.items() if each in self._owned}
            self._world.counts["consumer_assignments"] += 1

    def _leave(self) -> None:
        member = self._member_id
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member, member_epoch=LEAVES)

        def tap(term: Term) -> Tap:
            if not (yield).error_code:
                self._truth.gone.add((term, member))

        self._world.counts["consumer_leaves"] += 1
        self._straggle()
        self._begin()
        self._wire.ask_group(request, VERSION, lambda response: None, tap=tap)

    def _on_refused(self, error: int) -> None:
        """A commit was refused: in another epoch, or by a coordinator that does not know this member."""
        if error in _BEGINS_AGAIN:
            self._world.counts["consumers_fenced"] += 1
            self._lose()

    # ---------------------------------------------------------------- partitions as numbers

    def _pack(self, owned: frozenset[int]) -> tuple[ConsumerGroupHeartbeatTopicPartitions, ...]:
        by_topic: dict[bytes, list[int]] = {}
        for each in sorted(owned):
            by_topic.setdefault(self._topic_ids[each], []).append(each % PLACES)
        return tuple(
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic.items()
        )

    def _unpack(self, response: Any) -> list[int]:
        """Returns the numbers of the partitions in an answer, and remembers their topics."""
        found = []
        names = {topic.topic_id: name for name, topic in self._world.audits.image.topics.items()}
        for topic in response.assignment.topic_partitions:
            name = names.get(topic.topic_id, BRIEF)  # the only topic that may be gone
            for number in topic.partitions:
                place = TOPICS.index(name) * PLACES + number
                self._topic_ids[place] = topic.topic_id
                found.append(place)
        return found
