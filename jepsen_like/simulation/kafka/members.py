"""Members of a simulated Kafka consumer group: they join, own partitions, commit, leave, and die without a word."""

import enum
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jepsen_like.simulation.kafka.clients import COMMIT_VERSION, FETCH_VERSION, TOPIC
from jepsen_like.simulation.kafka.group_truth import GroupTruth, Term
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kafka.wire import ClientWire, Tap, build_offset_commit, build_offset_fetch
from jepsen_like.simulation.kernel.streams import stream
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest
from kafka_compat.protocol.apis.join_group import JoinGroupProtocol, JoinGroupRequest
from kafka_compat.protocol.apis.leave_group import LeaveGroupMember, LeaveGroupRequest
from kafka_compat.protocol.apis.sync_group import SyncGroupAssignment, SyncGroupRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.world import KafkaWorld

GROUP = "members"
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 7, 3, 3, 3
PARTITIONS = 4
"""Of the topic as the group sees it: more than it has, since nothing is read from them."""
STATIC = 0.3
LEAVES, DIES, COMMITS = 0.03, 0.02, 0.5
"""The probability that at each heartbeat."""
STRAGGLES = 0.7
"""The probability that a member that gives up what it owns commits once more, as if it did not know yet."""


class MemberState(enum.Enum):
    """The event that a member waits for."""

    OUT = "out"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


class SimulatedMember:
    """One consumer. It gives up what it owns before it joins again, and when its session has ended by its own clock."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs, number: int, truth: GroupTruth) -> None:
        rng = self._rng = stream(knobs.seed, f"member/{number}")
        self.number = number
        self._world = world
        self._knobs = knobs
        self._wire = ClientWire(world, knobs, rng)
        self._truth = truth
        self._instance = f"static-{number}" if rng.random() < STATIC else None
        self._lives = 0
        self._begin()

    def _begin(self) -> None:
        self._lives += 1
        self._member_id = ""
        self._generation = -1
        self._state = MemberState.OUT
        self._positions: dict[int, int] = {}
        """By owned partition: where it goes on, once the coordinator has told."""
        self._owned: frozenset[int] = frozenset()
        self._commits: dict[int, float] = {}
        """By partition: a commit that has no answer yet, and until when it may have one."""
        self._ticket = 0
        self._waits_until = 0.0
        self._alive_until = 0.0

    def wake(self) -> None:
        """Do what is due; until the world heals."""
        world = self._world
        if world.healed:
            return
        world.schedule(world.now + self._knobs.session_s * (0.1 + 0.1 * self._rng.random()), self.wake)
        if self._state is MemberState.STABLE and world.now > self._alive_until:
            self._lose()
        elif world.now < self._waits_until:
            return
        match self._state:
            case MemberState.OUT | MemberState.JOINING:
                self._join()
            case MemberState.SYNCING:
                self._lose()
            case MemberState.STABLE:
                self._live()

    def _live(self) -> None:
        draw = self._rng.random()
        if draw < LEAVES and self._instance is None:
            self._leave()
        elif draw < LEAVES + DIES:
            self._straggle()
            self._begin()
        else:
            self._heartbeat()
            for partition in sorted(self._owned):
                if partition not in self._positions:
                    self._fetch_offset(partition)
                elif partition in self._commits:
                    if self._world.now > self._commits[partition]:
                        self._lose()
                        return
                elif self._rng.random() < COMMITS:
                    self._commit(partition)

    def _lose(self) -> None:
        """Give up what it owns, and join again."""
        self._straggle()
        self._state = MemberState.OUT
        self._owned = frozenset()
        self._positions = {}

    def _ask(self, done: Callable[[Any], None], within_s: float, *, waits: bool = True) -> Callable[[Any], None]:
        """Take the answer to what is asked now, unless the member has given up waiting, or has died."""
        if waits:
            self._ticket += 1
            self._waits_until = self._world.now + within_s
        ticket, life, era = self._ticket, self._lives, self._truth.era

        def on_taken(response: Any) -> None:
            if (ticket, life) == (self._ticket, self._lives) and era == self._truth.era:
                if waits:
                    self._waits_until = 0.0
                done(response)

        return on_taken

    # ---------------------------------------------------------------- joining

    def _join(self) -> None:
        self._lose()
        self._state = MemberState.JOINING
        session_ms = round(self._knobs.session_s * 1e3)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=2 * session_ms,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=(JoinGroupProtocol(name="range", metadata=b""),),
        )

        def tap(term: Term) -> Tap:
            response, begun = (yield), self._truth.begun
            if response.error_code == KafkaErrorCode.NONE:
                begun[term] = max(begun[term], response.generation_id)

        done = self._ask(self._on_joined, 2.5 * self._knobs.session_s + self._knobs.request_s)
        suffix = f"{self.number}-{self._lives}-{self._ticket}"
        self._wire.ask_group(request, JOIN_VERSION, done, member_suffix=suffix, tap=tap)

    def _on_joined(self, response: Any) -> None:
        match response.error_code:
            case KafkaErrorCode.NONE if self._commits and response.generation_id == self._generation:
                # a commit that is under way could overtake one that comes after it in the same generation
                self._begin()
            case KafkaErrorCode.NONE:
                self._commits = {}
                self._member_id = response.member_id
                self._generation = response.generation_id
                self._world.counts["group_joins"] += 1
                self._sync([each.member_id for each in response.members] if response.leader == self._member_id else [])
            case KafkaErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            case KafkaErrorCode.UNKNOWN_MEMBER_ID | KafkaErrorCode.FENCED_INSTANCE_ID:
                self._member_id = ""
            case _:
                pass

    def _sync(self, members: list[str]) -> None:
        self._state = MemberState.SYNCING
        shares = {member: bytes(range(at, PARTITIONS, len(members))) for at, member in enumerate(sorted(members))}
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            assignments=tuple(SyncGroupAssignment(member_id=each, assignment=share) for each, share in shares.items()),
        )
        asked_at, generation, truth = self._world.now, self._generation, self._truth
        name = self._instance or self._member_id

        def tap(term: Term) -> Tap:
            era = truth.era
            response = yield
            if response.error_code == KafkaErrorCode.NONE and era == truth.era:
                truth.on_assigned(generation, name, frozenset(response.assignment))

        def on_synced(response: Any) -> None:
            if response.error_code == KafkaErrorCode.NONE:
                self._state = MemberState.STABLE
                self._owned = frozenset(response.assignment)
                self._alive_until = asked_at + self._knobs.session_s
                self._world.counts["group_assignments"] += 1
            else:
                self._on_refused(response.error_code)

        done = self._ask(on_synced, 2.5 * self._knobs.session_s + self._knobs.request_s)
        self._wire.ask_group(request, SYNC_VERSION, done, tap=tap)

    def _on_refused(self, error: int) -> None:
        """A rebalance, or this member is no longer known; other errors leave it as it is."""
        match error:
            case KafkaErrorCode.REBALANCE_IN_PROGRESS | KafkaErrorCode.ILLEGAL_GENERATION:
                self._lose()
            case KafkaErrorCode.UNKNOWN_MEMBER_ID | KafkaErrorCode.FENCED_INSTANCE_ID:
                self._world.counts["members_removed"] += 1
                self._member_id = ""
                self._lose()
            case _:
                pass

    # ---------------------------------------------------------------- living

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=self._generation, member_id=self._member_id, group_instance_id=self._instance
        )
        asked_at = self._world.now

        def on_done(response: Any) -> None:
            if response.error_code == KafkaErrorCode.NONE:
                self._alive_until = asked_at + self._knobs.session_s
            else:
                self._on_refused(response.error_code)

        self._wire.ask_group(request, HEARTBEAT_VERSION, self._ask(on_done, 0.0, waits=False))

    def _leave(self) -> None:
        member = self._member_id
        members = (LeaveGroupMember(member_id=member, group_instance_id=None),)
        request = LeaveGroupRequest(group_id=GROUP, members=members)

        def tap(term: Term) -> Tap:
            if not (yield).error_code:
                self._truth.gone.add((term, member))

        self._world.counts["group_leaves"] += 1
        self._straggle()
        self._begin()
        self._wire.ask_group(request, LEAVE_VERSION, lambda response: None, tap=tap)

    def _fetch_offset(self, partition: int) -> None:
        request = build_offset_fetch(GROUP, TOPIC, partition)
        truth, stale = self._truth, list[int]()
        acknowledged = truth.committed[partition]

        def on_done(response: Any) -> None:
            if stale or response.error_code or not response.topics or partition not in self._owned:
                return
            found = response.topics[0].partitions[0]
            if found.error_code == KafkaErrorCode.NONE:
                offset = max(found.committed_offset, 0)
                truth.on_fetched(partition, offset, acknowledged)
                self._positions[partition] = max(offset, truth.asked[partition])

        self._wire.ask_group(request, FETCH_VERSION, self._ask(on_done, 0.0, waits=False), stale=stale)

    def _commit(self, partition: int) -> None:
        self._commits[partition] = self._world.now + 1.3 * self._knobs.request_s

        def on_done(response: Any) -> None:
            self._commits.pop(partition, None)
            self._on_refused(response.topics[0].partitions[0].error_code)

        self._positions[partition] = offset = self._next_offset(partition)
        ids, taken = (self._generation, self._member_id), self._ask(on_done, 0.0, waits=False)
        self._send_commit(partition, offset, ids, taken)

    def _straggle(self) -> None:
        """Let a commit of what it owns now arrive late: after it has left, or another generation has begun."""
        # one that is under way could overtake it
        owned = sorted(self._positions.keys() - self._commits.keys())
        if owned and self._rng.random() < STRAGGLES:
            partition = self._rng.choice(owned)
            self._commits[partition] = math.inf
            at = self._world.now + self._rng.choice((0.3, 1.5)) * self._knobs.session_s * self._rng.random()
            self._world.counts["late_commits"] += 1
            offset, ids = self._next_offset(partition), (self._generation, self._member_id)
            self._world.schedule(at, self._send_commit, partition, offset, ids, lambda response: None)

    def _next_offset(self, partition: int) -> int:
        self._truth.asked[partition] += 1
        return self._truth.asked[partition]

    def _send_commit(self, partition: int, offset: int, ids: tuple[int, str], done: Callable[[Any], None]) -> None:
        truth, (generation, member) = self._truth, ids
        request = build_offset_commit(
            GROUP, TOPIC, partition, offset, generation=generation, member_id=member, instance=self._instance
        )

        def tap(term: Term) -> Tap:
            era, refusal = truth.era, truth.find_refusal(term, generation, member)
            error = (yield).topics[0].partitions[0].error_code
            if error == KafkaErrorCode.NONE and era == truth.era:
                self._world.counts["group_commits"] += 1
                truth.on_committed(refusal, partition, offset)
            self._world.counts["group_commits_refused"] += error in (
                KafkaErrorCode.ILLEGAL_GENERATION,
                KafkaErrorCode.UNKNOWN_MEMBER_ID,
                KafkaErrorCode.FENCED_INSTANCE_ID,
            )

        self._wire.ask_group(request, COMMIT_VERSION, done, tap=tap)
