"""Deliberate bugs of RocketMQ's brokers as a raft group, of its queues, its locks and its delayed messages.

Of the known bugs of DLedger and of brokers on it, B1 to B10: B1 to B3, B6 and B7 are planted in the copies of fixed roles and in `raft` itself; B8, B9, B10
and B14 here. Impossible by design:

- B4: no broker is a preferred leader; a leader hands over only to a follower whose log is complete.
- B5: a node that receives nothing of the leader asks for pre-votes, which are refused by every node that does, so terms do not grow.
"""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

COPY = "rocketmq_compat.broker.raft_copy"
TABLES = "rocketmq_compat.broker.raft_tables"
STATE = "rocketmq_compat.raft_state"
LOCKS = "rocketmq_compat.consumers.locks"
DELAYS = "rocketmq_compat.consumers.delays"
GROUP_HAPPY = (
    "tests/rocketmq_compat/broker/test_groups.py::test_what_is_acknowledged_is_read_from_the_master_and_is_on_every_broker",
)
LOCKS_HAPPY = ("tests/rocketmq_compat/consumers/test_subscriptions.py",)


STORE_HAPPY = ("tests/rocketmq_compat/storage/test_dispatch.py",)
_bug = partial(plant, judge="rocketmq-groups", happy=GROUP_HAPPY)
_lock_bug = partial(plant, judge="rocketmq-consumers", happy=LOCKS_HAPPY)
_store_bug = partial(plant, judge="rocketmq-store", happy=STORE_HAPPY)

ROCKETMQ_GROUP_BUGS: Sequence[Mutant] = (
    _bug(
        "rocketmq-group-copies-behind-a-busy-log-for-ever",
        "what is applied while a copy lacks records is not kept, so the copy never reaches the end of a busy log",
        COPY,
        "        while self.ahead_bytes > AHEAD_BYTES_MAX:\n",
        "        while self.ahead_bytes > 0:\n",
        oracles=["copies"],
    ),
    _bug(
        "rocketmq-group-trims-what-is-not-flushed",
        "what leaves the raft log is only in the page cache of the commit log",
        COPY,
        "        self._store.flush()\n        if self._store.log",
        "        if self._store.log",
        oracles=["G9"],
    ),
    _bug(
        "rocketmq-group-trims-what-it-lacks",
        "a node takes a snapshot although its commit log lacks what it stands for",
        COPY,
        "        if self.incomplete.is_set():\n            return None\n",
        "",
        oracles=["G9"],
    ),
    _bug(
        "rocketmq-group-one-queue-offset-for-two",
        "what is under way is not counted when the next message gets its queue offset (B14)",
        COPY,
        "lambda key: leadership.nexts.get(key) or self._store.next_offset(key)",
        "self._store.next_offset",
        oracles=["G3"],
    ),
    _bug(
        "rocketmq-group-earlier-leaderships-go-on",
        "what an earlier leader has proposed takes effect after a later one has begun",
        STATE,
        "        if command.term < self.term:\n            return False\n",
        "",
        oracles=["copies"],
    ),
    _bug(
        "rocketmq-group-registers-as-configured",
        "a broker registers with its configured id 0 before its role is known (B9)",
        "rocketmq_compat.broker.context",
        "            return 0 if self.leads else self.node_id\n",
        '            return self.properties.number("brokerId")\n',
        oracles=["G5"],
    ),
    _bug(
        "rocketmq-group-a-hanging-disk-leads-on",
        "a leader whose disk hangs goes on with its heartbeats (B8)",
        "raft.flush_schedule",
        "        self.stalls_at = self._begun + self._stall_s\n",
        "        self.stalls_at = self._begun + math.inf\n",
        oracles=["G10"],
    ),
    _bug(
        "rocketmq-group-delays-begin-again",
        "a new master does not take over how far delayed messages were delivered (B10)",
        TABLES,
        "        self._delays.follow(tables.delays)\n",
        "        assert tables.delays is not None\n",
        oracles=["G8", "V-liveness"],
    ),
    _bug(
        "rocketmq-group-master-when-elected",
        "a broker is master as soon as it is elected, whatever it has not applied yet",
        COPY,
        "            self._elected_in = news.term\n",
        "            self._elected_in = self._begun_in = news.term\n",
        oracles=["G5"],
    ),
    _bug(
        "rocketmq-group-acknowledges-what-is-proposed",
        "a message is acknowledged when it is proposed",
        COPY,
        "        self._propose(command, partial(self._put_settled, leadership, size, batch.found, done))\n",
        "        self._propose(command, partial(self._put_settled, leadership, size, batch.found, lambda outcome: None))\n"
        "        done(StoredMessages(SendStatus.SEND_OK, batch.found.physical_offsets, batch.found.queue_offsets))\n",
        oracles=["G1"],
    ),
    _bug(
        "rocketmq-group-old-tables-of-a-new-master",
        "a new master goes on with the tables that it took over last as a slave",
        TABLES,
        "        self._take_over()\n        version = context.topics.version\n",
        "        version = context.topics.version\n",
        oracles=["G7"],
    ),
    _bug(
        "rocketmq-group-saved-when-proposed",
        "what changes the tables is acknowledged before it is committed",
        TABLES,
        "                self._waiting.append(done)\n",
        "                done(None)\n",
        oracles=["G7"],
    ),
    _bug(
        "rocketmq-group-messages-before-their-topic",
        "a message of a new topic is proposed before the topic",
        COPY,
        "        self.tables.propose_names()  # the topic of a message is known before it\n",
        "",
        oracles=["G7"],
    ),
    _bug(
        "rocketmq-group-a-flushed-log-is-due",
        "a commit log that a snapshot has flushed is due for a flush for ever: the broker never rests (found by the simulator)",
        COPY,
        "            self._flush_due = math.inf  # a snapshot, or a cut, has flushed it meanwhile\n",
        "            pass\n",
        oracles=["G11"],
    ),
    _bug(
        "rocketmq-group-a-reset-copies-nothing",
        "a broker that was reset to a snapshot does not miss the records that it stands for",
        COPY,
        "            self._cut_to_state()\n        self._compare_ends()\n",
        "            self._cut_to_state()\n",
        oracles=["G9", "G4"],
    ),
    _bug(
        "rocketmq-group-delays-cut-at-what-is-dispatched",
        "delay offsets are cut at what is dispatched of their queues, and messages are delivered again (found by the simulator)",
        TABLES,
        "        self._dispatch()  # else delay offsets would seem to be beyond the ends of their queues, and be cut\n",
        "",
        oracles=["G8", "V-liveness"],
    ),
    _bug(
        "rocketmq-group-master-of-a-part",
        "a broker is master although its commit log lacks records that are committed",
        COPY,
        "if term is None or self._leadership is not None or self.incomplete.is_set():",
        "if term is None or self._leadership is not None:",
        oracles=["G5"],
    ),
    _bug(
        "rocketmq-group-an-effect-not-stored",
        "a message whose command had no effect is acknowledged",
        COPY,
        "        is_stored = isinstance(outcome, Applied) and outcome.result == DONE\n",
        "        is_stored = isinstance(outcome, Applied)\n",
        oracles=["G1"],
    ),
    _bug(
        "rocketmq-group-messages-while-a-topic-is-deleted",
        "a message is taken while the deletion of a topic is under way, with an offset that the queue will not have",
        COPY,
        "if leadership.is_broken or leadership.deletions:",
        "if leadership.is_broken:",
        oracles=["G3"],
    ),
    _bug(
        "rocketmq-group-a-copied-queue-goes-on",
        "the queues of a deleted topic come back with the records that a broker copies after a reset (found by the simulator)",
        COPY,
        "            for topic in {each.key[0] for each in self._store.derived.queues} - self.state.tables.topics.keys():\n"
        "                self._store.delete_topic(topic)  # it was deleted while its messages were missing here\n",
        "",
        oracles=["G3", "G4", "V-liveness"],
    ),
    _bug(
        "rocketmq-group-quiet-queues-are-forgotten",
        "a queue whose messages all precede a copied log gives their offsets again",
        COPY,
        "            self._store.begin_queues({key:",
        "            dict({key:",
        oracles=["G3", "G4", "V-liveness"],
    ),
    _store_bug(
        "rocketmq-store-gaps-are-closed",
        "units behind a gap take the places of those that are missing",
        "rocketmq_compat.storage.consume_queue",
        "            self._tail += UNIT.pack(physical, 0, 0) * (run.first - self.next)\n",
        "",
        oracles=["store"],
    ),
    _store_bug(
        "rocketmq-store-a-cut-keeps-assigned-offsets",
        "after a cut, messages get queue offsets behind those that are gone",
        "rocketmq_compat.storage.broker_store",
        "            self._waiting.clear()\n            self._assigned.clear()\n",
        "            self._waiting.clear()\n",
        oracles=["store"],
    ),
    _lock_bug(
        "rocketmq-delays-a-clock-that-is-set-back-is-missed",
        "a message whose time was found before the clock was set back waits for as much longer",
        DELAYS,
        "        if now_ms < self._asked_ms:\n",
        "        if now_ms < 0:\n",
        oracles=["consumers"],
    ),
    _lock_bug(
        "rocketmq-locks-two-owners",
        "a queue that another client has locked is locked again",
        LOCKS,
        "        elif lease.client_id != client_id:\n",
        "        elif not lease.client_id:\n",
        oracles=["consumers"],
    ),
    _lock_bug(
        "rocketmq-locks-leases-never-end",
        "the lock of a client that is gone is never free",
        LOCKS,
        "        return now - lease.renewed_at > self.lease_s\n",
        "        return now - lease.renewed_at < 0 * self.lease_s\n",
        oracles=["consumers"],
    ),
    _lock_bug(
        "rocketmq-locks-renewed-leases-keep-their-place",
        "a lease that was renewed ends as if it had not been",
        LOCKS,
        "            del self._leases[key]\n        self._leases[key] = _Lease(client_id, now)\n",
        "            return True\n        self._leases[key] = _Lease(client_id, now)\n",
        oracles=["consumers"],
    ),
    _lock_bug(
        "rocketmq-locks-anyone-unlocks",
        "a client unlocks what another one has locked",
        LOCKS,
        "            if lease is not None and lease.client_id == client_id:\n",
        "            if lease is not None and client_id:\n",
        oracles=["consumers"],
    ),
)
