"""Deliberate bugs in how Kafka's controller and leaders know which copies are whole: eligible leader replicas, doubts and comparison."""

from collections.abc import Sequence

from tests.mutants.kafka_bugs import ALTER, ELECTIONS, ISR, LEADER, MACHINE, kafka_bug
from tests.mutants.mutant import Mutant

MODEL = "kafka_compat.model"

KAFKA_COPY_BUGS: Sequence[Mutant] = (
    kafka_bug(
        "forgets-who-is-eligible",
        "a leader commits what an eligible replica lacks, which became it in its epoch",
        ISR,
        ("        self.eligible = state.elr\n", "        self.eligible = ()\n"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "begins-with-no-one-eligible",
        "a new leader commits what an eligible replica lacks, which was it before",
        LEADER,
        ("state.recovering, state.elr)", "state.recovering)"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "goes-on-before-it-may",
        "a leader commits without the eligible replicas before the controller has agreed",
        LEADER,
        (
            "            self._propose(isr.committed, out, keeps_eligible=False)\n",
            "            self._propose(isr.committed, out, keeps_eligible=False)\n            isr.eligible = ()\n",
        ),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "doubts-are-not-heard",
        "a member that came back unsure of its log stays eligible",
        ELECTIONS,
        ("    if report.doubtful and broker in", "    if False and broker in"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "suspects-lead",
        "a suspect is elected as an eligible replica is",
        ELECTIONS,
        (
            "        if replica in state.elr and image.active(replica):\n"
            "            others = in_order(state, {*state.elr, *state.isr} - {replica})\n"
            "            return evolve(state, leader=replica, isr=(replica,), elr=others)\n",
            "        if replica in (*state.elr, *state.suspects) and image.active(replica):\n"
            "            return evolve(state, leader=replica, isr=(replica,), elr=(), suspects=())\n",
        ),
        oracles=["K1", "K11", "K4", "script"],
    ),
    kafka_bug(
        "an-absent-eligible-replica-is-not-waited-for",
        "a comparison begins although a fenced eligible replica may be whole",
        MODEL,
        (
            "return self.leader == NO_LEADER and not self.isr and not self.elr",
            "return self.leader == NO_LEADER and not self.isr",
        ),
        oracles=["K1", "K11", "K4", "script"],
    ),
    kafka_bug(
        "compares-those-that-have-reported",
        "a comparison does not wait for every replica",
        ELECTIONS,
        ("    if len(ends) < len(state.replicas):", "    if not ends:"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "elects-any-that-was-compared",
        "the first active replica leads after a comparison, whatever its log",
        ELECTIONS,
        ("if _reach(each) == greatest and image.active(each.broker)", "if image.active(each.broker)"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "the-greatest-is-not-waited-for",
        "after a comparison the greatest log that is active leads, though a greater one is away",
        ELECTIONS,
        (
            "greatest = max([_reach(each) for each in ends])",
            "greatest = max([_reach(each) for each in ends if image.active(each.broker)], default=(-2, -1))",
        ),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "compares-ends-alone",
        "the longest log leads, whatever its last epoch",
        ELECTIONS,
        ("    return end.last_epoch, end.end_offset\n", "    return 0, end.end_offset\n"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "counts-the-log-of-an-earlier-process",
        "a log end counts that a process has reported which is gone",
        ELECTIONS,
        (" if image.brokers[each.broker].epoch == each.broker_epoch]", "]"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "takes-the-report-of-an-earlier-process",
        "a report is taken from a process that is gone",
        MACHINE,
        (
            "            if stale is not None:\n",
            "            if stale is not None and not isinstance(command, ReportLogs):\n",
        ),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "takes-the-report-of-an-earlier-time",
        "a log end counts that was reported before another leader came and went",
        ELECTIONS,
        (" and report.leader_epoch == state.leader_epoch\n", "\n"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "eligible-replicas-join-the-isr-at-once",
        "the other eligible replicas are in sync with one of them that is elected",
        ELECTIONS,
        ("isr=(replica,), elr=others)", "isr=(replica, *others), elr=())"),
        oracles=["K4", "K1", "script"],
    ),
    kafka_bug(
        "who-is-fenced-is-forgotten",
        "a member that is taken out of an ISR is not eligible, and the ISR may be empty",
        ELECTIONS,
        ("isr=rest, elr=in_order(state, (*state.elr, broker)))", "isr=rest)"),
        oracles=["K4", "K1", "K11", "script"],
    ),
    kafka_bug(
        "eligible-for-ever",
        "an eligible replica stays it although the leader goes on without it",
        ALTER,
        (".difference(isr) if change.keeps_eligible else ()", ".difference(isr)"),
        oracles=["V-liveness", "K1", "script"],
    ),
)
