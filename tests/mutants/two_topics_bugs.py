"""Deliberate bugs of two topics: messages that wait, are lost or come twice, policies that let late ones pass, and blind figures."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

SENDING = "raft.two_topics.sending"
RECEIVING = "raft.two_topics.receiving"
FIGURES = "jepsen_like.two_clusters.figures"
HAPPY = ("tests/raft/two_topics/test_receiving.py::test_replay_gives_everything_however_late",)
_bug = partial(plant, judge="two-topics", oracles=["two-topics"], happy=HAPPY)

TWO_TOPICS_BUGS: Sequence[Mutant] = (
    _bug(
        "two-topics-believes-in-a-lost-cluster",
        "every message has its first attempt at home, so that each waits for a failed one while the cluster is gone",
        SENDING,
        "        if now < health.avoid_until:\n            return False\n",
        "",
    ),
    _bug(
        "two-topics-never-goes-home",
        "a cluster that failed once is left alone for good",
        SENDING,
        "        health.avoid_until, health.probe = now + self._policy.attempt_s, number\n        return True\n",
        "        return False\n",
    ),
    _bug(
        "two-topics-tries-once-more-at-home",
        "a failed message goes to the same cluster again",
        SENDING,
        "            return [self._attempt(now, number, other)]\n        if not message.open:\n",
        "            return [self._attempt(now, number, side)]\n        if not message.open:\n",
    ),
    _bug(
        "two-topics-forgets-a-silent-attempt",
        "only what the client reports is a failure, and a cluster that hangs holds messages up",
        SENDING,
        "            for side in [side for side, at in message.open.items() if at <= now]:\n",
        "            for side in [side for side, at in message.open.items() if at <= now - 10]:\n",
    ),
    _bug(
        "two-topics-keeps-its-epoch",
        "a writer that leaves a cluster goes on in the same epoch, so that nothing is ever old",
        SENDING,
        "            self.epoch += not health.is_suspect\n",
        "",
    ),
    _bug(
        "two-topics-fails-too-early",
        "a message has failed when one cluster has, though the other one is being asked",
        SENDING,
        "        if not message.open:\n            del self._under_way[number]\n",
        "        if True:\n            del self._under_way[number]\n",
    ),
    _bug(
        "two-topics-gives-doubles",
        "a message that both clusters have is given twice",
        RECEIVING,
        "        given[envelope.number] = None\n",
        "        given.setdefault(envelope.number + 1, None)\n",
    ),
    _bug(
        "two-topics-deadline-in-seconds",
        "milliseconds are compared with seconds, and everything is late",
        RECEIVING,
        "now_ms - envelope.sent_ms > deadline_s * 1e3",
        "now_ms - envelope.sent_ms > deadline_s",
    ),
    _bug(
        "two-topics-epoch-of-any-key",
        "a message of a key that went on nowhere else is dropped, and is the last of its key",
        RECEIVING,
        "self._newest.setdefault((envelope.writer, key), _Newest())",
        'self._newest.setdefault((envelope.writer, b""), _Newest())',
    ),
    _bug(
        "two-topics-compensates-nothing",
        "an old message counts as the newest, so that the next old one is given",
        RECEIVING,
        "        newest.number = max(newest.number, envelope.number)\n",
        "        newest.number = envelope.number\n",
    ),
    _bug(
        "two-topics-sends-for-nothing",
        "what waited for a thread of a lost cluster is sent when it is back, though the other one has it",
        "rocketmq_compat.topic_pair",
        "            if not self._dispatch.is_open(message.number):\n",
        "            if self._dispatch.is_open(-1):\n",
    ),
    _bug(
        "two-topics-figures-forget-losses",
        "what was dropped on purpose and what was never read are the same",
        FIGURES,
        "lost=len(acked.keys() - {op.a for op in polls}),",
        "lost=len(acked.keys() - {op.a for op in given}),",
    ),
    _bug(
        "two-topics-figures-forget-the-struck",
        "a message that was under way when the cluster was lost does not count for the RTO",
        FIGURES,
        "if op.t_ret >= lost_ns and op.t_inv < back_ns]",
        "if op.t_inv >= lost_ns and op.t_inv < back_ns]",
    ),
)
