"""Clients that lock, renew and give up queues in any order: no queue is ever two clients' at once."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketmq_compat.consumers.locks import LEASE_S, QueueLocks
from rocketmq_compat.remoting.bodies import MessageQueue
from tests.examples import examples


def queue_of(number: int) -> MessageQueue:
    return MessageQueue(broker_name="broker-a", topic="T", queue_id=number)


CLIENTS = st.sampled_from(["a", "b", "c"])
GROUPS = st.sampled_from(["g", "h"])
QUEUES = st.lists(st.integers(0, 3).map(queue_of), max_size=4, unique=True)


class LockMachine(RuleBasedStateMachine):
    """`held` has who asked successfully for each queue, and when last."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.locks = QueueLocks()
        self.held: dict[tuple[str, MessageQueue], tuple[str, float]] = {}

    def owner(self, group: str, queue: MessageQueue) -> str | None:
        client, at = self.held.get((group, queue), ("", float("-inf")))
        return client if self.now - at <= LEASE_S else None

    @rule(client=CLIENTS, group=GROUPS, queues=QUEUES)
    def lock(self, client: str, group: str, queues: list[MessageQueue]) -> None:
        expected = [queue for queue in queues if self.owner(group, queue) in (None, client)]
        assert self.locks.lock(self.now, group, client, queues) == expected
        self.held |= {(group, queue): (client, self.now) for queue in expected}

    @rule(client=CLIENTS, group=GROUPS, queues=QUEUES)
    def unlock(self, client: str, group: str, queues: list[MessageQueue]) -> None:
        self.locks.unlock(group, client, queues)
        for queue in queues:
            if self.owner(group, queue) == client:
                del self.held[group, queue]

    @rule(seconds=st.sampled_from([1.0, 20.0, 30.0, LEASE_S, LEASE_S + 1]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def each_queue_is_its_owners(self) -> None:
        for group, queue in self.held:
            assert self.locks.owner(self.now, group, queue) == self.owner(group, queue)
        for group in ("g", "h"):
            has_locks = any(name == group and self.owner(name, queue) for name, queue in self.held)
            assert self.locks.consumes_in_order(self.now, group) == has_locks

    @invariant()
    def what_has_expired_is_not_kept(self) -> None:
        self.locks.consumes_in_order(self.now, "g")
        assert len(self.locks) == sum(self.owner(*key) is not None for key in self.held)


TestLockMachine = LockMachine.TestCase
TestLockMachine.settings = settings(max_examples=examples(20), stateful_step_count=30, deadline=None)


def test_there_is_a_bound_of_locks_and_those_that_are_held_stay_renewable() -> None:
    locks = QueueLocks(locks_max=2)
    queues = [queue_of(number) for number in range(3)]
    assert locks.lock(0.0, "g", "a", queues) == queues[:2]
    assert locks.lock(1.0, "g", "a", queues) == queues[:2]
    locks.unlock("g", "a", queues[:1])
    assert locks.lock(1.0, "g", "a", queues[2:]) == queues[2:]


def test_a_lock_that_is_renewed_hides_no_expired_one() -> None:
    locks = QueueLocks()
    first, second = queue_of(1), queue_of(2)
    locks.lock(0.0, "g", "a", [first])
    locks.lock(10.0, "g", "a", [second])
    locks.lock(50.0, "g", "a", [first])
    assert locks.lock(10.0 + LEASE_S + 1, "g", "b", [first, second]) == [second]


def test_an_expired_lock_is_still_given_up_by_who_had_it_and_by_no_other() -> None:
    locks = QueueLocks()
    locks.lock(0.0, "g", "a", [queue_of(1)])
    locks.unlock("g", "b", [queue_of(1)])
    assert len(locks) == 1
    locks.unlock("g", "a", [queue_of(1)])
    assert len(locks) == 0
