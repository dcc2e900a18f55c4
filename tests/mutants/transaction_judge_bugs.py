"""Deliberate bugs of what judges transactions: its checks, the recording of outcomes, the final logs; and of what it found."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

OVER_ALL = "jepsen_like.checker.transactions.check"
PARTITION = "jepsen_like.checker.transactions.partition"
TRANSACTOR = "jepsen_like.systems.kafka.transactor"
FINAL_LOG = "jepsen_like.systems.kafka.final_log"
EVIDENCE = "jepsen_like.record.evidence"


def misjudge(name: str, bug: str, module: str, old: str, new: str) -> Mutant:
    """Returns the mutant in which `new` stands in place of `old`, for the judge of transactions."""
    return plant(f"transactions-{name}", bug, module, old, new, oracles=["transactions"], judge="transactions")


TRANSACTION_JUDGE_BUGS: Sequence[Mutant] = (
    misjudge(
        "unknown-ones-may-be-torn",
        "a transaction of unknown outcome may be there in part",
        OVER_ALL,
        "    may_be_there = all_of.outcome != Outcome.FAIL\n",
        "    may_be_there = all_of.outcome == Outcome.OK\n",
    ),
    misjudge(
        "one-whole-view-is-enough",
        "a transaction is whole if any node has all of it",
        OVER_ALL,
        "(least == sent)",
        "(most == sent)",
    ),
    misjudge(
        "aborted-ones-may-stay",
        "an aborted transaction may be there in the end",
        OVER_ALL,
        "    report(Check.ABORTED_READ, ~may_be_there & ~all_of.is_absent,",
        "    report(Check.ABORTED_READ, ~may_be_there & all_of.is_absent & ~all_of.is_absent,",
    ),
    misjudge(
        "fenced-ones-may-commit",
        "a producer that was fenced may commit",
        OVER_ALL,
        "        is_fenced=is_late | (",
        "        is_fenced=(is_late & ~is_late) | (",
    ),
    misjudge(
        "fenced-ones-may-write",
        "a record that a fenced producer sent may stand in a log",
        OVER_ALL,
        "(over(latest, np.maximum, NONE) > fenced_ns)",
        "(over(latest, np.maximum, NONE) < NONE)",
    ),
    misjudge(
        "inputs-count-twice",
        "an input may have two outputs",
        OVER_ALL,
        "np.flatnonzero(outputs > 1)",
        "np.flatnonzero(outputs > 2)",
    ),
    misjudge(
        "outputs-without-positions",
        "an output may be there although the position of its input was not committed",
        OVER_ALL,
        "np.flatnonzero(~is_done & (outputs > 0))",
        "np.flatnonzero(~is_done & (outputs > 1))",
    ),
    misjudge(
        "unknown-ones-may-be-read",
        "a transaction that came to nothing may have been read, if its outcome was unknown",
        PARTITION,
        "        is_aborted |= (rows.type[sends] == Outcome.INFO) & (most[of_send[entry]] == 0)\n",
        "        pass\n",
    ),
    misjudge(
        "open-ones-may-be-read",
        "a record may be read before its commit was asked for",
        PARTITION,
        "(rows.t_ret[polls] < rows.seen[sends])",
        "(rows.t_ret[polls] < rows.t_inv[sends])",
    ),
    misjudge(
        "hidden-records-are-visible",
        "the records of aborted transactions in a final log count",
        PARTITION,
        "np.where(stored < NONE, NONE - stored, stored), stored > NONE)",
        "np.where(stored < NONE, NONE - stored, stored), stored != NONE)",
    ),
    misjudge(
        "commits-without-an-answer-are-aborted",
        "a transaction whose commit had no answer is recorded as aborted",
        TRANSACTOR,
        "        self.outcome = Outcome.FAIL if self.commit_ns == NONE else Outcome.INFO\n",
        "        self.outcome = Outcome.FAIL\n",
    ),
    misjudge(
        "open-ones-are-committed-in-the-end",
        "what has no marker in a final log counts as committed",
        FINAL_LOG,
        "            self._decide(producer_id, commits=False)\n",
        "            self._decide(producer_id, commits=True)\n",
    ),
    misjudge(
        "any-leader-is-a-coordinator",
        "a fault counts as one of coordinators, whatever its nodes led",
        EVIDENCE,
        "role.role == LEADER and role.scope in scopes]",
        "role.role == LEADER]",
    ),
    misjudge(
        "produces-are-answered-twice",
        "a produce whose verified batch is refused at once is answered twice",
        "kafka_compat.broker.requests.produce",
        "            outcome.waits_for -= 1  # only now: a step that is refused at once has its answer already\n",
        "            outcome.waits_for = 0\n",
    ),
    misjudge(
        "replaced-coordinators-answer",
        "a coordinator that was replaced tells a transaction where to go on",
        "kafka_compat.broker.requests.groups",
        "        return not request.require_stable or self._context.is_confirmed()\n",
        "        return True\n",
    ),
    misjudge(
        "fenced-brokers-are-confirmed",
        "a heartbeat that a fenced broker sent confirms what it leads",
        "kafka_compat.broker.registration",
        "        is_served = not answer.error_code and not answer.is_fenced\n",
        "        is_served = not answer.error_code\n",
    ),
)
