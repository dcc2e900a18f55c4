"""One PySyncObj node, for `python -m jepsen_like.bench.pysyncobj_node OWN OTHER...`: its leader loads itself.

It answers lines of JSON on its standard streams. The load is made of calls inside the leader, so no client connection costs
anything. Its settings are those that made it quickest here: no waiting for a batch, no compaction, nothing on disk; and the
replicated method only counts, for the records rest in PySyncObj's own log.
"""

import json
import sys
import threading
import time
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated

from jepsen_like.bench.conversation import payload

NEVER = 10**12
WAIT_S = 60.0


class Log(SyncObj):  # type: ignore[misc] # it ships no types
    """A log that is all in memory."""

    def __init__(self, own: str, others: list[str]) -> None:
        settings = SyncObjConf(
            appendEntriesUseBatch=False, logCompactionMinEntries=NEVER, logCompactionMinTime=NEVER, useFork=False
        )
        super().__init__(own, others, settings)
        self.count = 0

    @replicated  # type: ignore[untyped-decorator] # nor this
    def append(self, records: list[bytes]) -> None:
        """Count a batch, which is in the log by now."""
        self.count += len(records)


def loaded(log: Log, question: dict[str, Any]) -> dict[str, Any]:
    """Keep so many calls under way for so long, each made by the answer to another; then wait for the last."""
    records = [payload(question["record_bytes"], number) for number in range(question["batch"])]
    latencies: list[int] = []
    refused: list[int] = []
    over = threading.Event()
    clock = time.perf_counter_ns
    cpu_began, began = time.process_time(), clock()
    end = began + int(question["seconds"] * 1e9)
    under_way = question["connections"]

    def call() -> None:
        started = clock()

        def answered(result: object, error: int) -> None:
            nonlocal under_way
            now = clock()
            if error:
                refused.append(error)
            else:
                latencies.append(now - started)
            if now < end and not refused:
                call()
                return
            under_way -= 1
            if not under_way:
                over.set()

        log.append(records, callback=answered)

    for _ in range(under_way):
        call()
    over.wait(question["seconds"] + WAIT_S)
    if refused or not over.is_set():
        return {"failed": f"error {refused[0]}" if refused else "calls without an answer"}
    return {
        "latencies_ns": latencies,
        "lasted_s": (clock() - began) / 1e9,
        "client_cpu_s": 0.0,
        "cpu_s": time.process_time() - cpu_began,
    }


def main(own: str, *others: str) -> None:
    """Answer questions until stdin ends."""
    log = Log(own, list(others))
    for line in sys.stdin:
        question = json.loads(line)
        match question["ask"]:
            case "leads":
                answer: dict[str, Any] = {"leads": log.isReady() and log._isLeader()}
            case "count":
                answer = {"count": log.count}
            case _:
                answer = loaded(log, question)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
