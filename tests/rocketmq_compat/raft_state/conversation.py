"""Golden scripts: a line `> command`, and below it its outcome, and the state if it has changed.

    begin 2                        the leader of term 2 begins
    store 2 at=100 bytes=50        it has proposed 50 bytes of records at physical offset 100
    topic 2 T queues=4  notopic 2 T
    group 2 g           nogroup 2 g
    offset 2 g T 0 7    nooffset 2 g T 0      delay 2 3 9
    restart                        the state goes through a snapshot
    damaged HEX                    a malformed command

Every command goes through its bytes. `python -m tests.rocketmq_compat.raft_state.conversation --rewrite` renews the
answers.
"""

import sys
from pathlib import Path

from rocketmq_compat.raft_state import (
    BadGroupCommand,
    BeginLeadership,
    BrokerGroupState,
    ChangeTables,
    GroupCommand,
    StoreRecords,
    TableChanges,
    decode_group_command,
    encode_group_command,
)
from rocketmq_compat.remoting.bodies import DataVersion, SubscriptionGroupConfig, TopicConfig
from tests.golden import renew_script, rewrite

SCRIPTS = Path(__file__).with_name("scripts")


class Conversation:
    """One state, and how often its tables were changed."""

    def __init__(self) -> None:
        self.state = BrokerGroupState()
        self.changes = 0

    def say(self, command: str) -> list[str]:
        """Carries out one command; returns the lines that it leads to."""
        verb, *words = command.split()
        if verb == "restart":
            again = BrokerGroupState()
            again.restore(self.state.snapshot())
            assert again == self.state, "a snapshot holds all of it"
            self.state = again
            return self._show()
        if verb == "damaged":
            try:
                decode_group_command(bytes.fromhex("".join(words)))
            except BadGroupCommand as error:
                return [f"{error}"[:60]]
        term, *rest = words
        had_effect = self.state.apply(decode_group_command(encode_group_command(self._command(verb, int(term), rest))))
        return self._show() if had_effect else ["no effect"]

    def _command(self, verb: str, term: int, words: list[str]) -> GroupCommand:
        if verb == "begin":
            return BeginLeadership(term)
        if verb == "store":
            values = dict(word.split("=") for word in words)
            return StoreRecords(term, int(values["at"]), bytes(int(values["bytes"])))
        self.changes += 1
        return ChangeTables(term, self._changes(verb, words, DataVersion(state_version=term, counter=self.changes)))

    @staticmethod
    def _changes(verb: str, words: list[str], version: DataVersion) -> TableChanges:
        match verb.removeprefix("no"), words:
            case "topic", [name, *rest]:
                queues = int(rest[0].partition("=")[2]) if rest else 0
                topic = TopicConfig(topic_name=name, read_queue_nums=queues) if rest else None
                return TableChanges(topics={name: topic}, topic_version=version)
            case "group", [name]:
                group = None if verb == "nogroup" else SubscriptionGroupConfig(group_name=name)
                return TableChanges(groups={name: group}, group_version=version)
            case "offset", [name, topic_name, queue, *rest]:
                offset = int(rest[0]) if rest else None
                return TableChanges(offsets={(name, topic_name, int(queue)): offset}, offset_version=version)
            case _:
                return TableChanges(delays={int(words[0]): int(words[1])})

    def _show(self) -> list[str]:
        state, tables = self.state, self.state.tables
        shown = [f"term={state.term} end={state.end}"]
        if tables.topics:
            shown.append("topics " + " ".join(f"{name}:{each.read_queue_nums}" for name, each in tables.topics.items()))
        if tables.groups:
            shown.append("groups " + " ".join(tables.groups))
        if tables.offsets:
            shown.append(
                "offsets " + " ".join(f"{'/'.join(map(str, key))}={each}" for key, each in tables.offsets.items())
            )
        if tables.delays:
            shown.append("delays " + " ".join(f"{level}={offset}" for level, offset in tables.delays.items()))
        versions = [each.counter for each in (tables.topic_version, tables.group_version, tables.offset_version)]
        return [*shown, f"versions {versions}"] if any(versions) else shown


def renew(script: str) -> str:
    """Returns the script with the answers of today."""
    return renew_script(script, Conversation().say)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite(SCRIPTS, renew)
