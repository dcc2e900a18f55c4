"""The rule for a node that remembers nothing: what it must learn from the others before it takes part.

A node whose directory is empty does not know why. Either its group is new, or it has lost what it promised: its term
and its vote, and the entries that it acknowledged. Two such voters of three would elect one of themselves, and the
third, which holds everything, would drop what it holds. Absence is therefore taken for damage. A blank node asks every
other member for its *standing* (its term, and where its log ends) and until all have answered it neither votes, nor
campaigns, nor follows: it answers such questions alone. Then it takes over

- the greatest term among the answers, with its vote in that term spent;
- the greatest end of a log as its floor (`RaftCore._may_lead`): until its log reaches that, it does not campaign, and
  votes only for logs that do.

If all are blank, the group is new and begins with term 1, unless one of them knows that it had a past (its files were
damaged and set aside): then they wait, since nothing of the group is left and only its owner knows what to do. If a
majority is blank, the new term is `FORGOTTEN_TERMS` higher.

Why a vote of such a node is worth what the vote of the node that it was would be, as long as one sound copy is left of
each committed entry:

- *Terms.* Say it had voted for C in term t, and C has not forgotten. C's term was t before it asked, and its answer was
  asked for after the vote, so the greatest term is t or more: it votes in t no more, and follows no leader of an
  earlier term. If it was itself the candidate, its candidacy has ended with it, unless it had won; then those that
  voted for it are in term t.
- *Entries.* Say it had acknowledged e, and e is committed, now or later. If it is counted later, the leader that counts
  it held e when it answered, since it had sent e before. Else a member with a sound copy held it. Either answer names
  the end of a log with e, and that is durable, for the answer waits for the disk. So the floor is at e or behind it in
  the order of section 5.4.1, and the argument at `_may_lead` holds, in which the floor stands for the log that was
  lost.
- *Answers are new.* An answer names the number that the question had, which is drawn again at each start. What was said
  to an earlier life of this node counts for nothing.

All of this is about the members that a group began with. Where others may have joined since, a blank node cannot know
whom to ask, and it need not: it is a new node there (`raft.membership`), with a `directory_id` of its own. It takes part
as soon as one answer reports a change, or a leader that it does not know sends it entries, and is not counted until the
group has made it a voter again. One of the answers does report it, as long as a minority has forgotten: the first change
adds a learner, so a majority of the first members has its entry. A node that joins a group begins in the same way.

An answer from a majority is not enough. Of five nodes, say this one had voted for C in term 7. D, E and A, asked before
they learned of that term, answer with term 3. Then D votes for C, which leads by C, D and the forgotten vote, while A,
still leading in term 3, commits with E and this node what C does not hold.

If a majority has forgotten, the leaders of its elections may be forgotten as well, and then no node can know how far
terms had come. The entries of such leaders are safe by the floor. A second leader in one term is made as unlikely as
`FORGOTTEN_TERMS` unheard elections in a row.
"""

import random

import attrs

from raft.messages import AppendEntries, InstallSnapshot, Message, RequestPreVote, RequestStanding, StandingReply
from raft.model import NO_INDEX, NO_POSITION, NO_TERM, HardState, NodeId, Position, Term
from raft.objections import TERM_STEP_MAX

FORGOTTEN_TERMS = 1024
"""The number of terms that are left out when a majority has forgotten."""

_QUESTION_BITS = 60


@attrs.define
class Recall:
    """The answers that a blank node has received since it started.

    `question` names its questions, and the directory of a new node; each start draws it again.
    """

    question: int
    others: tuple[NodeId, ...]
    was_member: bool
    """True if this node knows that it had a past."""
    answers: dict[NodeId, StandingReply] = attrs.field(factory=dict)
    pre_votes: dict[NodeId, RequestPreVote] = attrs.field(factory=dict)
    """The newest question of each candidate, answered in the end: a new group need not wait for it to be repeated."""
    campaigns_next: bool = False
    """True if its user has asked it to campaign, which it does as soon as it may."""
    joins: bool = False
    """True if this node is none of those with which the group began."""
    unknown_term: Term = NO_TERM
    """The term of a leader that is none of those."""

    @property
    def may_end(self) -> bool:
        """True if this node has learned all it must, and may take part."""
        answers = self.answers.values()
        if self.is_new:
            return True
        had_past = self.was_member or any(answer.was_member for answer in answers)
        return (
            not self.joins and not self.missing and (not had_past or any(answer.term != NO_TERM for answer in answers))
        )

    @property
    def is_new(self) -> bool:
        """True if this is a new node of a group that is there."""
        answers = self.answers.values()
        if self.joins and any(answer.term != NO_TERM for answer in answers):
            return True
        return self.unknown_term != NO_TERM or any(answer.has_changed for answer in answers)

    @property
    def missing(self) -> tuple[NodeId, ...]:
        """The members that have not answered, or not with a term that is to be believed."""
        term_max = self._term_max
        return tuple(
            other for other in self.others if (answer := self.answers.get(other)) is None or answer.term > term_max
        )

    @property
    def _term_max(self) -> int:
        """The greatest term that is believed: one step above the least. One broken member must not set the group's."""
        terms = [answer.term for answer in self.answers.values() if answer.term != NO_TERM]
        return min(terms, default=NO_TERM) + TERM_STEP_MAX

    @classmethod
    def of(cls, rng: random.Random, others: tuple[NodeId, ...], *, was_member: bool, joins: bool) -> "Recall":
        """Returns that of a node that has just started."""
        return cls(rng.getrandbits(_QUESTION_BITS) | 1, others, was_member, joins=joins)

    def questions(self) -> list[tuple[NodeId, Message]]:
        """Returns the question, for each member without an answer; for all, if they leave nothing to begin with."""
        return [(other, RequestStanding(NO_TERM, self.question)) for other in self.missing or self.others]

    def receive(self, sender: NodeId, message: Message) -> list[tuple[NodeId, Message]]:
        """Take a message. Returns what is to be sent: a blank node has no part in anything but such questions yet.

        Of the answers of one member the newest counts, and none that was given to another question.
        """
        match message:
            case RequestStanding(question=question):
                answer = StandingReply(NO_TERM, question, NO_INDEX, NO_TERM, self.was_member)
                sends: list[tuple[NodeId, Message]] = [(sender, answer)]
                if sender in self.missing:  # it is there now
                    sends.append((sender, RequestStanding(NO_TERM, self.question)))
                return sends
            case StandingReply(question=self.question):
                self.answers[sender] = message
            case RequestPreVote():
                self.pre_votes[sender] = message
            case AppendEntries(term=term) | InstallSnapshot(term=term) if self.joins or sender not in self.others:
                self.unknown_term = term
            case _:
                pass
        return []

    def conclusion(self, node_id: NodeId, majority: int) -> HardState:
        """Returns what this node takes over once it may end; the state of a new group if there is nothing."""
        assert self.may_end, "an answer is missing"
        term_max = self._term_max
        known = [reply for reply in self.answers.values() if NO_TERM != reply.term <= term_max]
        if not known and not self.is_new:
            return HardState()
        if self.is_new:
            term = Term(min(max([self.unknown_term, *[reply.term for reply in known]]), term_max))
            return HardState(term, directory_id=self.question)
        term = max(reply.term for reply in known)
        blank = 1 + len(self.others) - len(known)
        if blank >= majority:
            term = Term(term + FORGOTTEN_TERMS)
        ends = [Position(reply.last_index, reply.last_term) for reply in known]
        return HardState(term, node_id, max(ends, key=lambda end: (end.term, end.index), default=NO_POSITION))
