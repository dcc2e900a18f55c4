"""Deliberate bugs of capacity: brokers that are not held to it, loads that are not even, and figures that hide an overload."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

LINE = "jepsen_like.cluster.line"
PLAN = "jepsen_like.capacity.plan"
FIGURES = "jepsen_like.capacity.figures"
HAPPY = ("tests/jepsen_like/capacity/test_plan.py::test_leaders_have_their_messages_in_turn",)
_bug = partial(plant, judge="capacity", oracles=["capacity"], happy=HAPPY)

CAPACITY_BUGS: Sequence[Mutant] = (
    _bug(
        "capacity-counts-chunks",
        "several requests in one chunk count as one",
        "jepsen_like.cluster.fault_proxy",
        "requests = self._frames.take(chunk) if self.way.counts_requests else 0",
        "requests = min(1, self._frames.take(chunk)) if self.way.counts_requests else 0",
    ),
    _bug(
        "capacity-forgets-a-torn-prefix",
        "a length that comes in two parts is read from the second alone",
        LINE,
        "            wanted = PREFIX.size - len(self._head)\n",
        "            wanted, self._head = PREFIX.size, self._head[:0]\n",
    ),
    _bug(
        "capacity-lets-a-burst-pass",
        "requests that come together pass together",
        LINE,
        "            self.free_s = max(self.free_s, now) + takes_s\n",
        "            self.free_s = now + takes_s\n",
    ),
    _bug(
        "capacity-heirs-in-the-same-zone",
        "a partition is taken over by a broker of the same zone, which is lost with its leader",
        PLAN,
        "for other in brokers if zone_of[one] != zone_of[other]]",
        "for other in brokers if one != other]",
    ),
    _bug(
        "capacity-uneven-leaders",
        "a broker with more partitions gets more messages",
        PLAN,
        "return [next(turns[leader]) for _ in range(rounds) for leader in of_leader]",
        "return list(range(len(pairs)))",
    ),
    _bug(
        "capacity-arbiters-without-majority",
        "half of the controllers is taken for a majority",
        PLAN,
        "return max(0, 2 * self.sizes[0] - self.brokers + 1)",
        "return max(0, 2 * self.sizes[0] - self.brokers)",
    ),
    _bug(
        "capacity-blind-to-what-is-unanswered",
        "messages without an answer do not count as offered",
        FIGURES,
        "    answered = offered & sends.is_ok\n",
        "    offered = answered = offered & sends.is_ok\n",
    ),
    _bug(
        "capacity-serves-what-came-later",
        "what was acknowledged after the window counts as served in it",
        FIGURES,
        "served = sends.is_ok & (begin_ns <= sends.t_ret) & (sends.t_ret < end_ns)",
        "served = sends.is_ok & (begin_ns <= sends.t_ret)",
    ),
    _bug(
        "zone-of-many-brokers-excuses-losses",
        "a zone with one copy of each partition may cost records, because two brokers stand in it",
        "jepsen_like.systems.kafka.promises",
        "(fault.copies or len(fault.nodes))",
        "len(fault.nodes)",
    ),
    _bug(
        "capacity-closed-loop",
        "a partition without answers holds up what is due elsewhere",
        "jepsen_like.systems.kafka.paced_sender",
        "                self._end(slot, self._next_value(), partition, time.monotonic_ns(), round(late_s * 1e6), NOT_QUEUED)\n",
        "                self._tickets, self._waiting[partition] = self._tickets - 1, self._waiting[partition] - 1\n                self._free.append(slot)\n                return\n",
    ),
)
