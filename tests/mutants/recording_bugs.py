"""Deliberate bugs of figures that experiments take of their own recordings: losses and times that no history shows."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

RECORDINGS = "jepsen_like.claims.recordings"
LAYOUT = "jepsen_like.claims.experiments.kafka_layout"
HAPPY = ("tests/jepsen_like/claims/test_kafka_verdicts.py::test_every_figure_that_is_expected_was_measured",)
_bug = partial(plant, judge="recordings", oracles=["recordings"], happy=HAPPY)

RECORDING_BUGS: Sequence[Mutant] = (
    _bug(
        "recording-forgets-of-all",
        "a record of unknown outcome counts as one that acks=0 forgot",
        RECORDINGS,
        "(outcome == Outcome.INFO) & (error == 0) & (node != NONE)",
        "(outcome == Outcome.INFO) & (node != NONE)",
    ),
    _bug(
        "recording-misses-acknowledged-alone",
        "only acknowledged records can be missing",
        RECORDINGS,
        "int((~np.isin(values, there)).sum())",
        "int((~np.isin(values[outcome == Outcome.OK], there)).sum())",
    ),
    _bug(
        "recording-recovers-by-old-requests",
        "service is back with the late answer to a request from before the fault",
        RECORDINGS,
        "self._ok() & (self.attempts.t_inv >= since_ns)",
        "self._ok() & (self.attempts.t_ret >= since_ns)",
    ),
    _bug(
        "recording-counts-late-answers",
        "what was acknowledged after a time counts as acknowledged in it",
        RECORDINGS,
        "int((chosen & (self.attempts.t_ret <= end_ns)).sum())",
        "int(chosen.sum())",
    ),
    _bug(
        "recording-gap-without-end",
        "a partition that never comes back has not paused",
        RECORDINGS,
        "        gaps[number] = round(float(np.diff(np.concatenate([[begin_ns], inside, [end_ns]])).max()) / NS, 3)\n",
        "        gaps[number] = round(float(np.diff(np.concatenate([[begin_ns], inside])).max(initial=0)) / NS, 3)\n",
    ),
    _bug(
        "recording-gap-of-all-partitions",
        "one partition has paused only if all have",
        RECORDINGS,
        "            (partition == number)\n            & np.isin(action, WRITES)",
        "            (partition >= 0)\n            & np.isin(action, WRITES)",
    ),
    _bug(
        "recording-elects-out-of-sync",
        "the first replica of the assignment leads, in sync or not",
        LAYOUT,
        "if each in in_sync and each != dead",
        "if each != dead",
    ),
    _bug(
        "recording-spread-of-the-used",
        "a broker that holds nothing is left out of the spread",
        LAYOUT,
        "min(count[broker] for broker in brokers)",
        "min(count.values())",
    ),
    _bug(
        "recording-accepts-losses",
        "settings that lose records equal a majority if they serve",
        "jepsen_like.claims.experiments.kafka_wrong_answers",
        "    if lost:\n",
        "    if lost and not with_two_dead:\n",
    ),
)
