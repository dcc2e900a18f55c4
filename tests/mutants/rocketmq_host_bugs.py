"""Deliberate bugs of RocketMQ's hosts with fixed roles: of what carries out the orders of the decider, of the store and of the tables.

Left out, because no client could notice them:

- A start that takes all of its log for durable: opening has made all of it durable (`log.store_recovery`).
- A cut that keeps the next offsets of queues: only a master reads them, and the end of that round forgets them. The store's tests see it
  (`rocketmq-store-a-cut-keeps-assigned-offsets`).
- A log that serves its old bytes after a reset: a process resets its log backwards about once in 400 worlds, and seldom reads there again.
  The store in any order of appends, cuts and resets finds it (`test_message_store_machine`).

Damage shows only with a loss of power that also takes the note of the log's reach, one world in a thousand: a script has it.
"""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

HOST = "rocketmq_compat.broker.replicated_log"
STORE = "rocketmq_compat.storage.broker_store"
GROUPS = "rocketmq_compat.broker.put_groups"
FLUSH = "log.store_flush"
START = "rocketmq_compat.broker.fixed_roles"
PAIR = "rocketmq_compat.broker.tables_of_pair"
TABLES = "rocketmq_compat.broker.tables"
HOST_HAPPY = ("tests/rocketmq_compat/broker/test_messages.py::test_what_was_acknowledged_is_pulled_in_order",)
_bug = partial(plant, judge="rocketmq", happy=HOST_HAPPY)

ROCKETMQ_HOST_BUGS: Sequence[Mutant] = (
    _bug(
        "rocketmq-host-a-flush-covers-what-came-since",
        "a flush confirms what was appended while it ran",
        HOST,
        "            self.step(CommitLogFlushed(self._store.end_flush(flush)))\n",
        "            self._store.end_flush(flush)\n            self.step(CommitLogFlushed(self._store.log.end_offset))\n",
        oracles=["Q1", "Q6", "Q9"],
    ),
    _bug(
        "rocketmq-host-a-flush-counts-as-it-begins",
        "a flush is reported as soon as it has begun",
        HOST,
        "        self._disk.submit(flush.run, on_flushed)\n",
        "        self._disk.submit(flush.run, on_flushed)\n        self.step(CommitLogFlushed(self._store.log.end_offset))\n",
        oracles=["Q1", "Q6", "Q9"],
    ),
    _bug(
        "rocketmq-host-a-flush-for-another-reason",
        "what is flushed as a doubt ends is not reported, and its slave waits for ever (found by the simulator)",
        HOST,
        "        if durable_end > self._decider.log.flushed_end:",
        "        if durable_end > self._store.log.end_offset:",
        oracles=["Q6"],
    ),
    _bug(
        "rocketmq-host-a-flushed-log-is-due",
        "a log that was flushed for another reason is due for a flush for ever: the broker never rests (found by the simulator)",
        HOST,
        "            self._due.flush = math.inf  # the end of a doubt, or a deletion, has flushed it meanwhile\n",
        "            pass\n",
        oracles=["Q15"],
    ),
    _bug(
        "rocketmq-host-places-of-the-first",
        "every put of a round is answered with the places of the first one",
        GROUPS,
        "            begin = end\n",
        "            end = begin\n",
        oracles=["Q1"],
    ),
    _bug(
        "rocketmq-host-the-reach-is-not-noted",
        "a broker does not note how far its log came, so that it does not miss what damage takes",
        HOST,
        "        self._store.copy.note_reach(log.last_epoch, log.end_offset)\n",
        "        assert log.end_offset >= log.start_offset\n",
        oracles=["Q12"],
    ),
    _bug(
        "rocketmq-host-slaves-are-not-noted",
        "a master does not remember the slaves that it has taken",
        HOST,
        "                    self._store.copy.change(lambda notes: attrs.evolve(notes, slaves=notes.slaves | {slave_id}))\n",
        "                    assert slave_id\n",
        oracles=["Q14"],
    ),
    _bug(
        "rocketmq-host-a-doubt-is-not-noted",
        "a master that copies back forgets in a restart that its log is short",
        HOST,
        "                    self._store.copy.change(lambda notes: attrs.evolve(notes, doubt=doubt))\n",
        "",
        oracles=["Q14"],
    ),
    _bug(
        "rocketmq-host-sure-of-what-is-not-flushed",
        "what was copied back is not flushed before the doubt is forgotten",
        HOST,
        "        self._store.flush()\n        self._note_sure()\n",
        "        self._note_sure()\n",
        oracles=["Q14"],
    ),
    _bug(
        "rocketmq-host-a-doubt-ends-before-its-tables",
        "the end of a doubt is noted before the tables from the slave are on disk",
        HOST,
        "            elif self._decider.log.doubt is None:\n"
        "                self._store.copy.change(lambda notes: attrs.evolve(notes, doubt=None))\n\n"
        "        self._tables.save(on_saved)\n",
        "\n        self._store.copy.change(lambda notes: attrs.evolve(notes, doubt=None))\n"
        "        self._tables.save(on_saved)\n",
        oracles=["Q14"],
    ),
    _bug(
        "rocketmq-host-pushes-across-epochs",
        "a push goes on into the next epoch, and its slave takes all of it for the first one",
        HOST,
        "config.push_bytes_max, order.end_max)",
        "config.push_bytes_max, self._store.log.end_offset)",
        oracles=["Q5"],
    ),
    _bug(
        "rocketmq-host-tables-are-not-adopted",
        "a master that has lost its tables takes those of a slave, and keeps its own",
        PAIR,
        "    context.offsets.merge(now, snapshot)\n",
        "    assert snapshot.offsets is not None\n",
        oracles=["Q11"],
    ),
    _bug(
        "rocketmq-host-lost-tables-are-new",
        "tables that are missing at a start were never there",
        TABLES,
        "        context.lost_tables.add(name)\n    if context.store",
        "        assert context.lost_tables is not None\n    if context.store",
        oracles=["Q11"],
    ),
    _bug(
        "rocketmq-host-a-flush-of-names",
        "a flush makes the names of files durable, and not the bytes of the newest",
        FLUSH,
        "            self._active.file.sync()\n",
        "            assert self._active.size\n",
        oracles=["Q12"],
    ),
    _bug(
        "rocketmq-host-what-is-refused-is-answered",
        "messages that the decider refuses are answered as stored",
        GROUPS,
        "            put.done(NotStored(code, reason))\n",
        "            self.answer(SendStatus.SEND_OK)\n            break\n",
        oracles=["Q1"],
    ),
    _bug(
        "rocketmq-host-the-first-waits-for-all",
        "whether the puts of a round wait is decided by the first of them",
        GROUPS,
        "while gathered and gathered[0].wait == puts[0].wait and size",
        "while gathered and size",
        oracles=["Q1"],
    ),
    _bug(
        "rocketmq-host-a-running-broker-is-not-noted",
        "a broker does not note that it runs, so that a loss of power looks like a stop",
        START,
        "is_running=True, flushes",
        "is_running=False, flushes",
        oracles=["Q10"],
    ),
    _bug(
        "rocketmq-host-unflushed-is-taken-for-flushed",
        "a broker that did not flush believes after a loss of power that all acknowledged records are there",
        START,
        "flushes=config.sync_flush, doubt",
        "flushes=True, doubt",
        oracles=["Q10", "Q17"],
    ),
    _bug(
        "rocketmq-host-damage-is-not-seen",
        "a log that was cut for damage is taken for a whole one",
        START,
        "reach=reach, cut=store.cut,",
        "reach=reach, cut=None,",
        oracles=["script"],
    ),
    _bug(
        "rocketmq-host-a-cut-takes-the-batch",
        "a cut within a batch takes what stands before it in the batch",
        STORE,
        "            if rest:\n",
        "            if rest and offset < batch_start:\n",
        oracles=["Q8"],
    ),
    _bug(
        "rocketmq-host-offsets-of-the-round-before",
        "the second batch of a round gets the queue offsets of the first",
        STORE,
        "            nexts.update((run.key, run.next) for run in batch.found.runs)\n            physical = batch.found.end\n",
        "            physical = batch.found.end\n",
        oracles=["Q13"],
    ),
    _bug(
        "rocketmq-host-a-doubt-of-a-start-is-forgotten",
        "a doubt that a start finds is not noted for the next start",
        START,
        "flushes=config.sync_flush, doubt=doubt)",
        "flushes=config.sync_flush, doubt=None)",
        oracles=["Q10", "Q11"],
    ),
    _bug(
        "rocketmq-host-files-of-tables-are-not-noted",
        "a broker does not note which tables have a file, so that a lost one looks like one that never was",
        TABLES,
        "        store.copy.change(lambda notes: attrs.evolve(notes, tables=tables))\n",
        "        assert tables is not None\n",
        oracles=["Q11"],
    ),
)
