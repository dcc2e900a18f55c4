"""Deliberate bugs of the copies of RocketMQ's commit log: DLedger's that this design could have (B1 to B7), the holes (H1, H6), and more."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant

MASTER = "rocketmq_compat.replication.master"
SLAVE = "rocketmq_compat.replication.slave"
ACKS = "rocketmq_compat.replication.acks"
LOG = "rocketmq_compat.replication.copy_log"
EPOCHS = "rocketmq_compat.replication.epochs"
BACK = "rocketmq_compat.replication.copy_back"
NOTES = "rocketmq_compat.storage.copy_notes"
ROCKETMQ_HAPPY = ("tests/mutants/test_rocketmq_happy_path.py",)


def _bug(name: str, bug: str, module: str, *edits: tuple[str, str], oracles: Sequence[str]) -> Mutant:
    return Mutant(
        name=f"rocketmq-{name}",
        bug=bug,
        module=module,
        edits=[Edit(old, new) for old, new in edits],
        oracles=oracles,
        judge="rocketmq",
        happy=ROCKETMQ_HAPPY,
    )


HISTORIES: Sequence[Mutant] = (
    _bug(
        "what-a-broken-connection-showed-is-forgotten",
        "a master in doubt is sure before it has all that a slave showed, once that one's connection breaks",
        MASTER,
        ("        elif log.doubt.floor is not None and log.doubt.floor < seen:\n", "        elif not log:\n"),
        oracles=["script"],
    ),
    _bug(
        "compared-before-the-doubt-or-never",
        "a slave that was taken before the doubt began is waited for, although it is connected and has nothing more",
        MASTER,
        (
            "        doubt = self._log.doubt\n        if doubt is not None and doubt.lacks_tables and",
            "        doubt = self._log.doubt\n        if doubt is None:\n            return\n        if doubt.lacks_tables and",
        ),
        oracles=["script"],
    ),
    _bug(
        "no-epochs-compared",
        "only the ends of both logs are compared, as if the slave's end were of the present epoch (B2)",
        EPOCHS,
        ("        if one.epochs.at(offset) != other.epochs.at(offset):\n", "        if offset < 0:\n"),
        oracles=["Q3", "Q2"],
    ),
    _bug(
        "only-the-last-epoch-compared",
        "a slave is of the same history if its last epoch is one of the master's (B2)",
        MASTER,
        (
            "        return agreed_end(own, History.of(shake.log_start, shake.log_end, shake.epochs))\n",
            "        if {each.epoch for each in shake.epochs[-1:]} & {each.epoch for each in log.epochs.entries()}:\n"
            "            return min(log.log_end, shake.log_end)\n"
            "        return agreed_end(own, History.of(shake.log_start, shake.log_end, shake.epochs))\n",
        ),
        oracles=["Q3", "Q2"],
    ),
    _bug(
        "a-later-epoch-below-the-start",
        "a slave that ends before the master's log begins is welcomed, whatever its epochs are",
        EPOCHS,
        ("foreign is not None and foreign < late.start:", "foreign is not None and foreign < 0:"),
        oracles=["V-liveness", "script"],
    ),
    _bug(
        "an-epoch-for-two",
        "an epoch is the last one plus one, as if no other start could know the same last one",
        MASTER,
        ("self.epoch = log.epochs.last + self._incarnation", "self.epoch = log.epochs.last + 1"),
        oracles=["Q5", "Q3", "Q2"],
    ),
    _bug(
        "a-slave-keeps-no-epochs",
        "a slave does not record the epochs that it is pushed",
        LOG,
        ("        self.epochs.assign(epoch, self.log_end)\n", ""),
        oracles=["Q3"],
    ),
    _bug(
        "epochs-survive-a-truncation",
        "a log that is cut keeps the epochs of what was cut",
        LOG,
        ("        self.epochs.truncate(end)\n        self.log_end = end\n", "        self.log_end = end\n"),
        oracles=["Q3", "V-liveness", "script"],
    ),
    _bug(
        "the-flushed-end-survives-a-truncation",
        "a log that is cut remains flushed up to where it was (B3)",
        LOG,
        ("        self.flushed_end = min(self.flushed_end, end)\n", ""),
        oracles=["script"],
    ),
    _bug(
        "takes-records-in-spite-of-a-divergence",
        "a divergence is reported, and does not stand against taking records (H1)",
        MASTER,
        ("(bool(self.divergences) and not self.accepts_loss)", "(bool(self.divergences) and self.accepts_loss)"),
        oracles=["Q4"],
    ),
    _bug(
        "one-handshake-ends-every-divergence",
        "a slave that is welcome ends the divergences of all others",
        MASTER,
        (
            "        if self.divergences.pop(slave_id, None) is not None:\n",
            "        if self.divergences:\n            self.divergences.clear()\n",
        ),
        oracles=["Q4"],
    ),
    _bug(
        "an-accepted-loss-is-forgotten",
        "once the operator has accepted a loss, slaves that diverge are welcome",
        MASTER,
        (
            "        if shake.log_end > agreed and shake.log_start < shake.log_end:\n",
            "        if log.log_end >= shake.log_end > agreed and self.accepts_loss:\n            pass\n"
            "        elif shake.log_end > agreed and shake.log_start < shake.log_end:\n",
        ),
        oracles=["Q3", "Q2"],
    ),
    _bug(
        "the-slave-is-not-told-where",
        "a refusal does not tell the slave where it diverges, so that no operator can cut it there",
        MASTER,
        ("HandshakeRefused(reason, found.agreed_end)", "HandshakeRefused(reason)"),
        oracles=["V-liveness", "script"],
    ),
)

WHOLE: Sequence[Mutant] = (
    _bug(
        "another-disk-is-a-new-broker",
        "a master whose disk has no notes takes records at once, whatever its slaves have",
        NOTES,
        ("        return CopyDoubt(None, lacks_tables=True)", "        return None"),
        oracles=["Q10"],
    ),
    _bug(
        "a-shorter-log-is-taken-as-it-is",
        "a start does not compare its log with how far it had come",
        NOTES,
        ("    elif reach < before or", "    elif reach.end < 0 or"),
        oracles=["Q10"],
    ),
    _bug(
        "a-power-cut-raises-no-doubt",
        "with ASYNC_FLUSH a start under another boot trusts what is left of its log",
        NOTES,
        ("file.found.boot != boot", 'file.found.boot == ""'),
        oracles=["Q10"],
    ),
    _bug(
        "one-slave-ends-every-doubt",
        "a master that does not know how far it had come waits for one of its slaves",
        BACK,
        (
            "        return self.slaves <= self.compared and len(self.compared) >= self.expected",
            "        return bool(self.compared)",
        ),
        oracles=["Q10"],
    ),
    _bug(
        "the-floor-is-always-reached",
        "a master that knows how far it had come takes records before it has come there again",
        LOG,
        ("doubt.floor is not None and self.reach >= doubt.floor", "doubt.floor is not None and self.reach.end >= 0"),
        oracles=["Q10"],
    ),
    _bug(
        "welcomed-before-all-is-copied-back",
        "a slave is welcomed after the first bytes that were copied back from it",
        MASTER,
        ("        if log.log_end < source.end:\n", "        if log.log_end < 0:\n"),
        oracles=["Q3", "Q10"],
    ),
    _bug(
        "lost-tables-are-not-asked-for",
        "a master that has lost its consumer offsets begins without those of its slaves",
        MASTER,
        (" and doubt.lacks_tables and slave.slave_id not in", " and slave.slave_id < 0 and slave.slave_id not in"),
        oracles=["Q11", "script"],
    ),
    _bug(
        "a-slave-that-has-more-is-cut-off",
        "a master that has appended nothing treats what a slave has beyond its end as a divergence",
        MASTER,
        ("            if agreed == log.log_end and not self._has_appended:\n", "            if agreed < 0:\n"),
        oracles=["V-liveness", "script"],
    ),
)
"""Masters that begin with less than they had."""

ANSWERS: Sequence[Mutant] = (
    _bug(
        "acknowledges-what-is-pushed",
        "what is on its way to a slave counts as its copy",
        MASTER,
        (
            "        slave.pushed_end = end\n        slave.sent_at = now\n",
            "        slave.pushed_end = slave.reported_end = end\n        slave.sent_at = now\n        self._on_reported(out)\n",
        ),
        oracles=["Q1", "Q9"],
    ),
    _bug(
        "a-report-counts-as-far-as-pushed",
        "a report of more than was pushed is cut down to it, and counts (H6)",
        MASTER,
        (
            "            case Report(end=end) if end > slave.pushed_end:\n"
            '                self._close(slave, f"reports {end}, and was pushed up to {slave.pushed_end}", out)\n',
            "            case Report(end=end) if end > slave.pushed_end:\n"
            "                slave.reported_end = slave.pushed_end\n"
            "                self._on_reported(out)\n",
        ),
        oracles=["Q1", "Q9"],
    ),
    _bug(
        "any-report-counts",
        "a report may exceed what was pushed on the connection (H6, #3015)",
        MASTER,
        (
            "            case Report(end=end) if end > slave.pushed_end:\n",
            "            case Report(end=end) if end < 0:\n",
        ),
        oracles=["script"],
    ),
    _bug(
        "reports-of-closed-connections-count",
        "what a slave has reported counts after its connection has ended (B1: counted under another leadership)",
        MASTER,
        ("            self.slaves.remove(slave)\n", "            pass\n"),
        oracles=["Q7"],
    ),
    _bug(
        "one-slave-counts-twice",
        "an older connection of a slave stays beside the newer one (GroupTransferService)",
        MASTER,
        ("if each.slave_id == shake.slave_id or each.connection == lends\n", "if each.slave_id == -2\n"),
        oracles=["script"],
    ),
    _bug(
        "one-slave-is-always-enough",
        "with inSyncReplicas=3 one slave is enough",
        ACKS,
        ("    return sorted(reports, reverse=True)[copies - 2]\n", "    return max(reports)\n"),
        oracles=["Q1", "Q9"],
    ),
    _bug(
        "the-minimum-is-not-kept",
        "fewer copies than minInSyncReplicas are enough when no more are in sync",
        ACKS,
        (
            "return max(min(config.in_sync_replicas, in_sync), config.min_in_sync_replicas)",
            "return min(config.in_sync_replicas, in_sync)",
        ),
        oracles=["Q1"],
    ),
    _bug(
        "an-async-master-waits",
        "an ASYNC_MASTER waits for a slave",
        ACKS,
        ("    if not config.sync_master:\n        return 1\n", ""),
        oracles=["Q7"],
    ),
    _bug(
        "sync-flush-is-not-waited-for",
        "with SYNC_FLUSH records are answered as soon as they are in the page cache",
        MASTER,
        ("        flush = None if config.sync_flush and event.wait else OK\n", "        flush = OK\n"),
        oracles=["Q1"],
    ),
    _bug(
        "the-first-wait-decides",
        "records are answered when their copies are there, flushed or not",
        ACKS,
        ("        if self.flush is None or self.copies is None:\n", "        if self.copies is None:\n"),
        (
            "        return self.copies if self.copies is not SendStatus.SEND_OK else self.flush\n",
            "        return self.copies if self.copies is not SendStatus.SEND_OK else self.flush or SendStatus.SEND_OK\n",
        ),
        oracles=["Q1"],
    ),
    _bug(
        "the-status-of-the-flush-wins",
        "when both waits fail, the client is told of the flush",
        ACKS,
        (
            "        return self.copies if self.copies is not SendStatus.SEND_OK else self.flush\n",
            "        return self.flush if self.flush is not SendStatus.SEND_OK else self.copies\n",
        ),
        oracles=["Q7"],
    ),
    _bug(
        "waits-for-a-slave-that-is-far-behind",
        "haSlaveFallbehindMax is not looked at",
        ACKS,
        (
            "    return bool(reports) and end - max(reports) < config.slave_fallbehind_bytes_max\n",
            "    return bool(reports)\n",
        ),
        oracles=["Q7"],
    ),
    _bug(
        "the-end-of-a-wait-answers-nobody",
        "records whose wait for copies is over are never answered",
        ACKS,
        ("                put.copies = SendStatus.FLUSH_SLAVE_TIMEOUT\n", "                put.copies = None\n"),
        oracles=["V-liveness"],
    ),
    _bug(
        "the-newest-record-is-looked-at-first",
        "records that have their copies are not answered while newer ones lack theirs",
        ACKS,
        ("deque()).append((copies_deadline, put))", "deque()).appendleft((copies_deadline, put))"),
        oracles=["Q7"],
    ),
    _bug(
        "confirms-what-is-not-flushed",
        "the confirm offset of a SYNC_FLUSH master runs ahead of its disk",
        MASTER,
        ("        log.confirm(min(log.own_end, acks", "        log.confirm(min(log.log_end, acks"),
        oracles=["Q9"],
    ),
    _bug(
        "confirms-what-has-no-copy",
        "the confirm offset of a SYNC_MASTER does not wait for slaves",
        MASTER,
        (
            "        log.confirm(min(log.own_end, acks.copied_end(log.log_end, reports, copies)), out)\n",
            "        log.confirm(log.own_end if copies else acks.copied_end(0, reports, 0), out)\n",
        ),
        oracles=["Q9"],
    ),
)

STREAM: Sequence[Mutant] = (
    _bug(
        "checksums-of-pushes-are-not-compared",
        "a slave appends bytes that are not those of which the push's checksum was made",
        SLAVE,
        ("        elif crc32c.crc32c(push.payload) != push.crc:\n", "        elif crc32c.crc32c(push.payload) < 0:\n"),
        oracles=["Q2"],
    ),
    _bug(
        "reports-what-is-not-flushed",
        "a slave with SYNC_FLUSH reports what is in its page cache",
        SLAVE,
        ("        self.reported_end = self.log.own_end\n", "        self.reported_end = self.log.log_end\n"),
        oracles=["script"],
    ),
    _bug(
        "a-copy-counts-before-its-flush",
        "SYNC_FLUSH does not matter to what a copy counts for",
        LOG,
        ("return self.flushed_end if self.sync_flush else self.log_end", "return self.log_end"),
        oracles=["Q6", "Q9"],
    ),
    _bug(
        "a-push-at-any-offset",
        "a slave appends a push wherever it belongs in the master's log",
        SLAVE,
        ("        if push.offset != log.log_end:\n", "        if push.offset < 0:\n"),
        oracles=["script"],
    ),
    _bug(
        "pushes-begin-with-the-next-record",
        "a slave that was welcomed gets nothing until the next record is written (B7)",
        MASTER,
        (
            "        self._on_compared(slave, now, out)\n        self._push(slave, out)\n",
            "        self._on_compared(slave, now, out)\n",
        ),
        oracles=["script"],
    ),
    _bug(
        "a-full-window-stays-full",
        "a report does not make room for more pushes (B6)",
        MASTER,
        (
            "                self._on_reported(out)\n                self._push(slave, out)\n",
            "                self._on_reported(out)\n",
        ),
        oracles=["V-liveness"],
    ),
    _bug(
        "a-silent-master-is-waited-for",
        "a slave does not give up a connection that is silent (B6)",
        SLAVE,
        (
            "        elif self.heard_at + self.config.silence_s_max <= now:\n",
            "        elif self.heard_at + self.config.silence_s_max < 0:\n",
        ),
        ("        silence = self.heard_at + self.config.silence_s_max\n", "        silence = math.inf\n"),
        oracles=["V-liveness"],
    ),
    _bug(
        "a-slave-dials-once",
        "a slave whose connection has ended does not dial again (B6)",
        SLAVE,
        (
            "        self.retry_at = now + self.config.reconnect_s\n",
            "        self.retry_at = math.inf if now else 0.0\n",
        ),
        oracles=["V-liveness"],
    ),
    _bug(
        "a-silent-slave-counts",
        "a master keeps the connection of a slave that is silent",
        MASTER,
        (
            "            if slave.heard_at + config.silence_s_max <= now:\n",
            "            if slave.heard_at + config.silence_s_max < 0:\n",
        ),
        ("            due = min(due, slave.heard_at + silence_s_max)\n", "            due = min(due, math.inf)\n"),
        oracles=["script"],
    ),
    _bug(
        "a-slave-from-another-group",
        "a broker of another name is taken for a slave",
        MASTER,
        ("        if shake.broker_name != config.broker_name:\n", "        if not shake.broker_name:\n"),
        oracles=["script"],
    ),
    _bug(
        "an-empty-slave-continues-at-its-end",
        "a slave without bytes is pushed from its end on, and lacks what is before",
        MASTER,
        (
            "        is_anew = shake.log_start == shake.log_end or shake.log_end < log.log_start\n",
            "        is_anew = shake.log_end < log.log_start\n",
        ),
        oracles=["script"],
    ),
)

ROCKETMQ_BUGS: Sequence[Mutant] = (*HISTORIES, *WHOLE, *ANSWERS, *STREAM)
