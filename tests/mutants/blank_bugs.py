"""Deliberate bugs in the rule for nodes that remember nothing (`raft.recall`)."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant, plant

CORE = "raft.core"
RECALL = "raft.recall"

BLANK_BUGS: Sequence[Mutant] = (
    plant(
        "blank-takes-part",
        "a node whose directory vanished begins as if its group were new",
        CORE,
        "hard_state.term == NO_TERM and (joins or not founded):",
        "hard_state.term == NO_TERM and joins:",
        oracles=["A1", "A4", "A7", "I1", "I3", "I9"],
    ),
    Mutant(
        name="blank-hears-a-majority",
        bug="a node that remembers nothing takes part when a majority has answered it, itself included",
        module=RECALL,
        edits=[
            Edit(" and not self.missing and (", " and len(self.missing) <= len(self.others) // 2 and ("),
            Edit('        assert self.may_end, "an answer is missing"\n', ""),
        ],
        oracles=["A1", "A4", "A7", "I1", "I3", "I8", "I9"],
    ),
    plant(
        "blank-takes-no-floor",
        "what the others hold is no floor for a node that remembers nothing",
        CORE,
        "self.term, self.vote, self.floor = state.term, state.vote, state.floor\n",
        "self.term, self.vote = state.term, state.vote\n            state = HardState(state.term, state.vote)\n",
        oracles=["A4", "I3", "I8", "I9"],
    ),
    plant(
        "blank-takes-the-lowest-floor",
        "the floor of a node that remembers nothing is the shortest log among the answers",
        RECALL,
        "max(ends, key=lambda end:",
        "min(ends, key=lambda end:",
        oracles=["A4", "I3", "I8", "I9"],
    ),
    plant(
        "blank-conclusion-not-kept",
        "what a node that remembered nothing has learned is not written",
        CORE,
        "            self._persist(hard_state=state)\n",
        "            pass\n",
        oracles=["A1", "A2", "A5", "A7"],
    ),
    plant(
        "standing-is-what-is-committed",
        "a node answers with what it knows to be committed, not with what it has acknowledged",
        CORE,
        "        end = self.log.position  # not the floor: what it stands for is no copy, and would be waited for in vain\n",
        "        end = Position(self.commit_index, self.log.term_at(self.commit_index))\n",
        oracles=["A4", "I3", "I8", "I9"],
    ),
)
