"""A state machine of your own: counters that every node has, in plain Python with blocking calls.

Commands go through the log and are applied on every node in the same order; queries see every command that was answered
before them. So a machine may depend on nothing but its commands: no clock, no chance, no iteration over sets. One that offers
`snapshot` and `restore` can do without its oldest commands, and then a node may be told to let them go (`retention_bytes`).

    python examples/counters.py
"""

import json
import tempfile
import time

from raft import InvalidRequest, NodeSettings, NotLeader
from raft.sync import RaftGroup

MEMBERS = {1: ("127.0.0.1", 4001)}
SETTINGS = NodeSettings(retention_bytes=1 << 30)  # of the log about a gigabyte stays


class Counters:
    """Commands are `name`, which adds one; a query is `name`, too. Both answer with the count."""

    def __init__(self) -> None:
        self.counts: dict[bytes, int] = {}

    def check(self, command: bytes, *, read_only: bool) -> None:
        """Asked before a command may enter the log."""
        if not command.isalpha():
            raise InvalidRequest("a counter is named by letters")

    def apply(self, index: int, command: bytes) -> bytes:
        """Carry out a command that is committed."""
        self.counts[command] = self.counts.get(command, 0) + 1
        return b"%d" % self.counts[command]

    def query(self, command: bytes) -> bytes:
        """Answer from the counts as they are."""
        return b"%d" % self.counts.get(command, 0)

    def snapshot(self) -> bytes:
        """All that the commands so far have made of it."""
        return json.dumps({name.decode(): count for name, count in self.counts.items()}).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from there, on this node or on another."""
        self.counts = {name.encode(): count for name, count in json.loads(snapshot).items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        for turn in ("first", "second"):  # the second finds what the first has counted
            with RaftGroup.open(
                node_id=1, members=MEMBERS, directory=home, state_machine=Counters(), settings=SETTINGS
            ) as group:
                wait_for_lead(group)
                for name in (b"apples", b"pears", b"apples"):
                    group.apply(name)
                print(turn, "apples:", group.query(b"apples").result.decode())
                try:
                    group.apply(b"42")
                except InvalidRequest as error:
                    print(error)


def wait_for_lead(group: RaftGroup) -> None:
    """A node alone elects itself after an election timeout; what it is asked before that, it refuses."""
    while True:
        try:
            group.tail()
        except NotLeader:
            time.sleep(0.05)
        else:
            return


if __name__ == "__main__":
    main()
