"""Deliberate bugs of RocketMQ's hosts with fixed roles: of what carries out the orders of the decider, of the store and of the tables."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant

HOST = "rocketmq_compat.broker.replicated_log"
GROUPS = "rocketmq_compat.broker.put_groups"
STORE = "rocketmq_compat.storage.broker_store"
START = "rocketmq_compat.broker.fixed_roles"
PAIR = "rocketmq_compat.broker.tables_of_pair"
TABLES = "rocketmq_compat.broker.tables"
COMMIT_LOG = "rocketmq_compat.storage.commit_log"
HOST_HAPPY = ("tests/rocketmq_compat/broker/test_messages.py::test_what_was_acknowledged_is_pulled_in_order",)


def _bug(name: str, bug: str, module: str, old: str, new: str, *oracles: str) -> Mutant:
    return Mutant(
        name=f"rocketmq-host-{name}",
        bug=bug,
        module=module,
        edits=[Edit(old, new)],
        oracles=oracles,
        judge="rocketmq",
        happy=HOST_HAPPY,
    )


ROCKETMQ_HOST_BUGS: Sequence[Mutant] = (
    _bug(
        "a-flush-covers-what-came-since",
        "a flush confirms what was appended while it ran",
        HOST,
        "            self.step(CommitLogFlushed(self._store.end_flush(flush)))\n",
        "            self._store.end_flush(flush)\n            self.step(CommitLogFlushed(self._store.log.end_offset))\n",
        "Q1",
        "Q6",
        "Q9",
    ),
    _bug(
        "a-flush-for-another-reason",
        "what is flushed as a doubt ends is not reported, and its slave waits for ever (found by the simulator)",
        HOST,
        "        if durable_end > self._decider.log.flushed_end:",
        "        if durable_end > self._store.log.end_offset:",
        "V-liveness",
    ),
    _bug(
        "places-of-the-first",
        "every put of a round is answered with the places of the first one",
        GROUPS,
        "            begin = end\n",
        "            end = begin\n",
        "Q1",
    ),
    _bug(
        "the-reach-is-not-noted",
        "a broker does not note how far its log came, so that it does not miss what damage takes",
        HOST,
        "        self._store.copy.note_reach(LogReach(log.last_epoch, log.end_offset))\n",
        "        assert log.end_offset >= log.start_offset\n",
        "Q12",
    ),
    _bug(
        "slaves-are-not-noted",
        "a master does not remember the slaves that it has taken",
        HOST,
        "                    self._store.copy.change(lambda notes: attrs.evolve(notes, slaves=notes.slaves | {slave_id}))\n",
        "                    assert slave_id\n",
        "Q14",
    ),
    _bug(
        "a-doubt-is-not-noted",
        "a master that copies back forgets in a restart that its log is short",
        HOST,
        "                    self._store.copy.change(lambda notes: attrs.evolve(notes, doubt=CopyDoubt(floor)))\n",
        "",
        "Q14",
    ),
    _bug(
        "sure-of-what-is-not-flushed",
        "what was copied back is not flushed before the doubt is forgotten",
        HOST,
        "        self._store.flush()\n\n        def on_saved",
        "        def on_saved",
        "Q14",
    ),
    _bug(
        "a-doubt-ends-before-its-tables",
        "the end of a doubt is noted before the tables from the slave are on disk",
        HOST,
        "            if failure is None and self._decider.log.doubt is None:\n"
        "                self._store.copy.change(lambda notes: attrs.evolve(notes, doubt=None))\n\n"
        "        self._tables.save(on_saved)\n",
        "            assert failure is None\n\n"
        "        self._store.copy.change(lambda notes: attrs.evolve(notes, doubt=None))\n"
        "        self._tables.save(on_saved)\n",
        "Q14",
    ),
    _bug(
        "pushes-across-epochs",
        "a push goes on into the next epoch, and its slave takes all of it for the first one",
        HOST,
        "self._decider.config.push_bytes_max, order.end_max)",
        "self._decider.config.push_bytes_max)",
        "Q5",
    ),
    _bug(
        "tables-are-not-adopted",
        "a master that has lost its tables takes those of a slave, and keeps its own",
        PAIR,
        "    context.offsets.merge(now, snapshot)\n",
        "    assert snapshot.offsets is not None\n",
        "Q11",
    ),
    _bug(
        "lost-tables-are-new",
        "tables that are missing at a start were never there",
        TABLES,
        "        context.lost_tables.add(name)\n    if context.store",
        "        assert context.lost_tables is not None\n    if context.store",
        "Q11",
    ),
    _bug(
        "all-is-durable-at-a-start",
        "a start takes what is in the page cache for flushed",
        START,
        "        log.durable_offset,\n",
        "        log.end_offset,\n",
        "Q1",
        "Q6",
        "Q9",
    ),
    _bug(
        "damage-is-not-seen",
        "a log that was cut for damage is taken for a whole one",
        START,
        "reach=reach, cut=store.cut,",
        "reach=reach, cut=None,",
        "Q10",
    ),
    _bug(
        "a-cut-takes-the-batch",
        "a cut within a batch takes what stands before it in the batch",
        STORE,
        "            if rest:\n",
        "            if rest and offset < batch_start:\n",
        "Q12",
    ),
    _bug(
        "a-cut-keeps-assigned-offsets",
        "after a cut, messages get queue offsets behind those that are gone",
        STORE,
        "            self._waiting.clear()\n            self._assigned.clear()\n",
        "            self._waiting.clear()\n",
        "Q13",
    ),
    _bug(
        "a-flush-that-is-none",
        "a flush ends before it has run",
        HOST,
        "        self._disk.submit(flush.run, on_flushed)\n",
        "        self._disk.submit(flush.run, lambda error: None)\n        flush.run()\n        on_flushed(None)\n",
        "Q1",
    ),
    _bug(
        "old-bytes-of-a-reset-log",
        "the newest bytes of a log that was cut are still served from memory",
        COMMIT_LOG,
        '        """Remove everything and go on at this physical offset, with any epoch. Durable when it returns."""\n        self._recent.clear()\n',
        '        """Remove everything and go on at this physical offset, with any epoch. Durable when it returns."""\n',
        "Q13",
    ),
    _bug(
        "offsets-of-the-round-before",
        "the second put of a round gets the queue offsets of the first",
        STORE,
        "            nexts.update((run.key, run.next) for run in batch.found.runs)\n            physical = batch.found.end\n",
        "            physical = batch.found.end\n",
        "Q13",
    ),
)
