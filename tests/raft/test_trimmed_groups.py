"""Groups whose nodes trim their logs whenever they may, under lost, doubled, delayed and disordered messages and loss of power.

The simulator has real disks; here are only cores, so that many short histories can be tried that are nothing but trouble.
"""

import random
from collections import Counter

import pytest

from raft.effects import Send
from raft.messages import AppendAccepted
from raft.model import Entry, LogIndex
from tests.examples import examples
from tests.raft.conversation import Conversation, Node

STEPS = 300
CALM_ROUNDS = 40


class Audited(Conversation):
    """No acknowledgement is sent before the disk of its sender has what it acknowledges."""

    def _post(self, node: int, send: Send) -> None:
        if isinstance(send.message, AppendAccepted):
            here = self.nodes[node]
            end = here.log[-1].index if here.log else here.start.index
            assert send.message.match_index <= end, f"n{node} acknowledges {send.message} and has {end} on disk"
        super()._post(node, send)


class Trouble:
    """One history. `committed` is what any node ever reported as committed, by index."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.group = Audited()
        self.committed: dict[int, Entry] = {}
        self.told: Counter[str] = Counter()
        size = self.rng.choice([2, 3, 3, 3, 5])
        self.ids = range(1, size + 1)
        self.tell(f"nodes {size}")
        self.tell(f"set cache_bytes_max {self.rng.choice([1, 200, 1_000, 1_000_000])}")
        self.tell(f"set append_bytes_max {self.rng.choice([64, 200, 1_000])}")
        self.tell(f"set inflight_messages_max {self.rng.choice([1, 3, 8])}")
        self.tell(f"elect {self.rng.choice(self.ids)}")
        if self.rng.random() < 0.5:
            for node in self.ids:
                self.tell(f"slow {node}")

    def tell(self, line: str) -> None:
        """Say it, and look at every node."""
        for said in self.group.command(line):
            for what in ("InstallSnapshot", "persist", "start="):
                self.told[what] += what in said
        for node in self.group.nodes.values():
            self.look_at(node)

    def look_at(self, node: Node) -> None:
        """Compares its committed entries, in memory and on its disk, with those of all others."""
        core, log = node.core, node.core.log
        known = self.committed.get(log.start.index)
        assert known is None or known.term == log.start.position.term, "a log begins behind what was never committed"
        for entry in [*log._cache, *(entry for entry in node.log if entry.index <= log.durable_index)]:
            if entry.index <= core.commit_index:
                known = self.committed.setdefault(entry.index, entry)
                assert known == entry, f"two entries were committed at {entry.index}: {known} and {entry}"
        for index in range(log.start.index + 1, core.commit_index + 1):
            known = self.committed.get(index)
            assert known is None or known.term == log.term_at(LogIndex(index)), f"another term was committed at {index}"

    def step(self) -> None:
        rng, group = self.rng, self.group
        node = rng.choice(self.ids)
        if group.slow.get(node) and rng.random() < 0.3:
            self.tell(f"loaded {node}")
            return
        links = [f"{a}>{b}" for (a, b), queue in group.links.items() if queue]
        longer = [f"{a}>{b}" for (a, b), queue in group.links.items() if len(queue) > 1]
        match rng.choices(range(9), [45, 25, 12, 10, 14, 7, 3, 6, 3])[0]:
            case 0 if links:
                self.tell(f"deliver {rng.choice(links)} {rng.choice([1, 2, 9])}")
            case 1:
                writes = group.nodes[node].writes
                if writes:
                    self.tell(f"persist {node} {rng.choice(writes).write_id}")
            case 2:
                leaders = [each for each in self.ids if group.nodes[each].core.leader == each]
                self.tell(f"propose {rng.choice(leaders or self.ids)} x{rng.getrandbits(30)}")
            case 3:
                leaders = [each for each in self.ids if group.nodes[each].core.leader == each]
                self.tell(f"timeout {rng.choice(leaders) if leaders and rng.random() < 0.8 else node}")
            case 4:
                self.trim(node)
            case 5 if links:
                self.tell(f"drop {rng.choice(links)} {rng.choice([1, 3])}")
            case 6:
                self.tell(f"crash {node}" if rng.random() < 0.7 else f"disconnect {node} {rng.choice(self.ids)}")
            case 7 if longer:
                self.tell(f"{rng.choice(['swap', 'copy'])} {rng.choice(longer)}")
            case 8:
                self.tell(f"cut {node}" if rng.random() < 0.5 else "heal")
            case _:
                pass

    def trim(self, node: int) -> None:
        """As far as the driver of a node might: what is committed and durable here."""
        core = self.group.nodes[node].core
        last = min(core.commit_index, core.log.durable_index)
        if last > core.log.start.index:
            self.tell(f"trim {node} {self.rng.randint(core.log.start.index + 1, last)}")

    def calm_down(self) -> None:
        """All links work and all disks do: before long everybody holds and has committed the same."""
        self.tell("heal")
        for _ in range(CALM_ROUNDS):
            self.tell(f"timeout {min(self.ids, key=lambda each: self.group.nodes[each].core.deadline)}")
            self.tell("stabilize")
            for node in [each for each in self.ids for _ in self.group.slow.get(each, ())]:
                self.tell(f"loaded {node}")
            self.tell("stabilize")
        cores = [node.core for node in self.group.nodes.values()]
        assert len({(core.log.position, core.commit_index) for core in cores}) == 1, self.group.command("show")
        assert cores[0].commit_index == cores[0].log.last_index
        assert len({core.leader for core in cores} - {None}) == 1


@pytest.mark.parametrize("batch", range(examples(6)))
def test_nodes_that_trim_agree_on_what_was_committed_and_come_to_rest(batch: int) -> None:
    told: Counter[str] = Counter()
    for seed in range(batch * 15, batch * 15 + 15):
        trouble = Trouble(seed)
        for _ in range(STEPS):
            trouble.step()
        trouble.calm_down()
        told += trouble.told
    assert told["InstallSnapshot"], "no log was ever reset"
