"""Deliberate bugs in the comparison of two systems: figures that hide a difference, and differences that stay unnamed."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

BEHAVIOUR = "jepsen_like.record.behaviour"
BESIDE = "jepsen_like.record.beside"
HAPPY = ("tests/jepsen_like/report/test_beside.py::test_a_directory_of_no_pair_is_refused",)
_bug = partial(plant, judge="beside", oracles=["beside"], happy=HAPPY)

BESIDE_BUGS: Sequence[Mutant] = (
    _bug(
        "beside-late-answers-rise",
        "an offset counts as too low only below one whose write began before",
        BEHAVIOUR,
        'np.searchsorted(t_ret[order], t_inv, side="left")] > offset',
        'np.searchsorted(t_inv[order], t_inv, side="left")] > offset',
    ),
    _bug(
        "beside-copies-fill-holes",
        "the copies of a log count as records that it has more",
        BEHAVIOUR,
        "- each.min()) + 1 - len(np.unique(each)) for",
        "- each.min()) + 1 - len(each) for",
    ),
    _bug(
        "beside-epochs-of-all-partitions",
        "an epoch that two partitions have counts once",
        BEHAVIOUR,
        "epochs = np.unique(led[:2], axis=1)",
        "epochs = np.unique(led[1:2], axis=1)",
    ),
    _bug(
        "beside-any-consumer-is-a-group",
        "what a consumer without a group reads counts as given again",
        BEHAVIOUR,
        'rows["offset"][polled]])[:, group != NONE]',
        'rows["offset"][polled]])[:, group >= NONE]',
    ),
    _bug(
        "beside-fault-in-one-run-alone",
        "a fault that only one system had is left out",
        BESIDE,
        "for key in {**values, **others} if key[0] == aspect",
        "for key in values if key[0] == aspect",
    ),
    _bug(
        "beside-never-is-soon",
        "a system that does not recover is as good as one that does",
        BESIDE,
        "        return first != beside\n    one, other = sorted((_number(first), _number(beside)))\n    return other - one > RECOVERY_S",
        "        return False\n    one, other = sorted((_number(first), _number(beside)))\n    return other - one > RECOVERY_S",
    ),
    _bug(
        "beside-setting-of-one-for-both",
        "a setting with the name of a system reaches the other one",
        "jepsen_like.run.beside",
        "        elif owner == system.name:\n",
        "        else:\n",
    ),
    _bug(
        "apache-power-takes-nothing",
        "a flush of each record is expected of Apache's default",
        "jepsen_like.systems.kafka.foreign_mode",
        'BEFORE_ACK if str(self.settings.get(self.flush_name, "")) == "1" else PAGE_CACHE',
        'PAGE_CACHE if str(self.settings.get(self.flush_name, "")) == "1" else BEFORE_ACK',
    ),
)
