"""Deliberate bugs of the proxy that answers on request: its rules, its order of answers, and its error answers."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

CONVERSATION = "jepsen_like.systems.kafka.answers.conversation"
RULES = "jepsen_like.systems.kafka.answers.rules"
REFUSALS = "jepsen_like.systems.kafka.answers.refusals"
ADDRESSES = "jepsen_like.systems.kafka.answers.addresses"
ORACLES = ["answers"]


def answer_bug(name: str, bug: str, module: str, old: str, new: str) -> Mutant:
    """A bug that the scripts of the proxy are to find; its name begins with `answers-`."""
    return plant(f"answers-{name}", bug, module, old, new, oracles=ORACLES, judge="answers")


ANSWER_BUGS: Sequence[Mutant] = (
    answer_bug(
        "overtakes",
        "an answer of the proxy does not wait for those to earlier requests",
        CONVERSATION,
        "        self._pending.append(exchange)\n\n    def _answer_of_proxy",
        "        self._pending.appendleft(exchange)\n\n    def _answer_of_proxy",
    ),
    answer_bug(
        "waits-for-acks-0",
        "the proxy waits for the answer to a produce that gets none",
        CONVERSATION,
        "        if not is_silent or exchange.is_cut:\n",
        "        if True:\n",
    ),
    answer_bug(
        "serves-before",
        "a request whose connection is to end before it is served is served",
        CONVERSATION,
        "rule.disconnect == BEFORE or (",
        "False or (",
    ),
    answer_bug("forgets-the-delay", "a late answer is due at once", CONVERSATION, "now + rule.delay_s if", "now if"),
    answer_bug(
        "holds-what-is-undone",
        "an answer that is held back does not leave when its wish is undone",
        CONVERSATION,
        "        return 0.0 if exchange.rule is not None and exchange.rule.is_undone else exchange.due\n",
        "        return exchange.due\n",
    ),
    answer_bug(
        "counts-from-zero",
        "the request before the one that was named is changed",
        RULES,
        "self.seen >= self.call\n",
        "self.seen >= self.call - 1\n",
    ),
    answer_bug(
        "means-every-client",
        "a wish for one client befalls all",
        RULES,
        "        if self.client_id is not None and self.client_id != header.client_id:\n",
        "        if self.client_id is not None and header.client_id is None:\n",
    ),
    answer_bug(
        "learns-no-ids",
        "a topic that a request names by its id is not recognised",
        CONVERSATION,
        "                self.topic_names[topic.topic_id] = topic.name\n",
        "                pass\n",
    ),
    answer_bug(
        "fails-the-session",
        "an error of partitions is put upon the whole fetch, which ends the client's session",
        REFUSALS,
        '        values["error_code"] = 0  # that of the whole is the session\'s\n',
        "        pass\n",
    ),
    answer_bug(
        "leaks-the-coordinator",
        "the address of a coordinator leads past the proxy",
        ADDRESSES,
        "        changed |= _own_values(answer, translate)\n",
        "        pass\n",
    ),
)
