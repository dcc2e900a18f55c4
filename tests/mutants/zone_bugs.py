"""Deliberate bugs of zones: places that are not as the rule demands, and faults, lines and proofs that miss a part of a zone."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

ZONES = "jepsen_like.port.zones"
EVIDENCE = "jepsen_like.record.evidence"
HAPPY = ("tests/jepsen_like/port/test_zones.py::test_a_cluster_without_zones_stands_nowhere",)
_bug = partial(plant, judge="zones", oracles=["zones"], happy=HAPPY)

ZONE_BUGS: Sequence[Mutant] = (
    _bug(
        "zone-spares-name-servers",
        "a zone goes down, and the name server in it serves on",
        ZONES,
        "return tuple(sorted(member for member, its in self.of.items() if its in hit))",
        "return tuple(sorted(member for member in self.with_data if self.of[member] in hit))",
    ),
    _bug(
        "zone-keeps-its-clients",
        "a zone is cut off, and clients elsewhere still reach it",
        ZONES,
        "return pairs, tuple(sorted(member for member in self.of if (member in inside) != are_inside))",
        "return pairs, tuple(sorted(member for member in self.of if (member in inside) and are_inside))",
    ),
    _bug(
        "zone-is-cut-one-way",
        "what leaves a zone is cut, what enters it is not",
        ZONES,
        "if (one in inside) != (two in inside)\n",
        "if one in inside and two not in inside\n",
    ),
    _bug(
        "zone-places-copies-together",
        "the third copy goes to the zone of the first, though another one has none",
        ZONES,
        "key=lambda name: (used[name], -room[name], turn[name])",
        "key=lambda name: (used[name] > 1, -room[name], turn[name])",
    ),
    _bug(
        "zone-gathers-masters",
        "every group begins in the first zone, so that all masters are lost with it",
        ZONES,
        "turn = {name: (at - number) % len(names) for at, name in enumerate(names)}",
        "turn = {name: at for at, name in enumerate(names)}",
    ),
    _bug(
        "zone-rule-counts-nodes",
        "the check of placement is content with any two nodes",
        ZONES,
        "used = {self.zone_of(node) for node in nodes}",
        "used = set(nodes)",
    ),
    _bug(
        "zone-broker-without-rack",
        "brokers are not told their zones, so that replicas are placed as if there were none",
        "jepsen_like.systems.kafka.processes",
        'return [f"{RACK}={zone}"] if zone else []',
        "return []",
    ),
    _bug(
        "zone-with-one-name-server",
        "brokers and clients know the name server of the first zone alone",
        "jepsen_like.systems.rocketmq.processes",
        "sorted(addresses.items()) if node > brokers)",
        "sorted(addresses.items()) if node == brokers + 1)",
    ),
    _bug(
        "zone-line-forgets-answers",
        "what a node answers on connections of the other zone is not delayed",
        "jepsen_like.cluster.fault_network",
        "        return tuple(way for _, way in self._parts(pair))\n",
        "        return tuple(way for _, way in self._parts(pair))[:1]\n",
    ),
    _bug(
        "zone-line-ends-with-a-fault",
        "after the first fault has healed, zones are no longer apart",
        "jepsen_like.cluster.fault_proxy",
        "self.is_late = condition.is_late or bool(self.lines)",
        "self.is_late = condition.is_late",
    ),
    _bug(
        "zone-switch-forgets-its-lines",
        "the switch of packets forgets lines with the first heal",
        "jepsen_like.cluster.switch",
        "        self._ways = {pair: self._new_way(pair) for pair in self._lines}\n",
        "        self._ways = {pair: self._new_way(pair) for pair in self._lines if not self._faults}\n",
    ),
    _bug(
        "zone-proof-misses-members",
        "a zone-down that missed a node is taken for one",
        EVIDENCE,
        "    if missed := set(zones.whole(fault.nodes)) - set(fault.nodes):\n",
        "    if missed := set(fault.nodes) - set(zones.whole(fault.nodes)):\n",
    ),
    _bug(
        "zone-proof-misses-ways",
        "a zone-cut that left a way open is taken for one",
        EVIDENCE,
        "for way in sorted(ways - set(fault.links))]",
        "for way in sorted(set(fault.links) - ways)]",
    ),
)
