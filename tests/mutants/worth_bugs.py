"""Deliberate bugs of what is made of claims: verdicts that figures do not lead to, and runs that are taken for others."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

JUDGEMENT = "jepsen_like.claims.judgement"
EXPERIMENT = "jepsen_like.claims.experiment"
HAPPY = ("tests/jepsen_like/claims/test_judgement.py::test_a_missing_figure_is_named",)
_bug = partial(plant, judge="worth", oracles=["worth"], happy=HAPPY)

WORTH_BUGS: Sequence[Mutant] = (
    _bug(
        "worth-of-any-figure",
        "a claim holds if one of its figures is as expected",
        JUDGEMENT,
        "if not all(parts[Part.CLAIM]):",
        "if not any(parts[Part.CLAIM]):",
    ),
    _bug(
        "worth-without-seen-exception",
        "a claim gets its condition though the exception was not seen",
        JUDGEMENT,
        "        if parts[part] and all(parts[part]):\n",
        "        if parts[part]:\n",
    ),
    _bug(
        "worth-refuted-without-opposite",
        "a figure that is off refutes a claim, though the opposite was not seen either",
        JUDGEMENT,
        "return Worth.FALSE if all(parts[Part.INSTEAD]) else Worth.NONE",
        "return Worth.FALSE",
    ),
    _bug(
        "worth-of-missing-figures",
        "a claim is judged by the figures that there are",
        JUDGEMENT,
        "    if missing or all(",
        "    if all(",
    ),
    _bug(
        "worth-bound-forgets-its-end",
        "a figure above what was expected is as expected",
        JUDGEMENT,
        "return self.low <= value <= self.high",
        "return self.low <= value",
    ),
    _bug(
        "worth-accepts-any-reason",
        "a written reason for one verdict is taken for another one",
        "jepsen_like.claims.catalogue",
        "self.differs is not None and verdict is self.differs.verdict",
        "self.differs is not None",
    ),
    _bug(
        "worth-of-a-broken-promise",
        "figures are taken of a run that broke a promise",
        EXPERIMENT,
        "        if results.valid is False:\n",
        "        if results.valid is False and results.lost_acked:\n",
    ),
    _bug(
        "worth-of-a-missed-fault",
        "figures are taken of a run whose fault hit no node",
        EXPERIMENT,
        "if doubt.startswith(DOUBT)]",
        "if doubt == DOUBT]",
    ),
    _bug(
        "worth-of-the-repair",
        "a cluster that serves when it is repaired has served without its dead node",
        EXPERIMENT,
        "return int(self.rto_s(number) < held_s)",
        "return int(self.rto_s(number) < NEVER)",
    ),
    _bug(
        "worth-of-another-plan",
        "a run with more nodes is taken for one that was carried out",
        EXPERIMENT,
        "        plan = attrs.evolve(plan, seed=self.seed)\n",
        "        plan = attrs.evolve(plan, seed=self.seed, nodes=3)\n",
    ),
    _bug(
        "worth-best-in-most",
        "a way to replicate that loses records is the best in everything",
        "jepsen_like.claims.experiments.modes",
        "            and self.lost <= min(other.lost for other in others)\n",
        "",
    ),
    _bug(
        "worth-of-data-nodes",
        "name servers are to be killed, and brokers are",
        "jepsen_like.nemesis.processes",
        "if not member.holds_data)",
        "if member.holds_data)",
    ),
)
