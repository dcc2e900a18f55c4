"""Deliberate bugs of the harness: what loads, breaks, records and judges a run of real processes."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant

RECORDER = "jepsen_like.workload.recorder"
TARGETS = "jepsen_like.nemesis.targets"
PROCESSES = "jepsen_like.nemesis.processes"

RECORDERS: Sequence[Mutant] = (
    Mutant(
        name="recorder-drops-what-was-acknowledged",
        bug="the recorder loses one answered operation in a hundred",
        module=RECORDER,
        edits=[
            Edit(
                "        self._history.record_batch(op, seen.values)\n",
                "        if self.counts.ok % 100:\n            self._history.record_batch(op, seen.values)\n",
            )
        ],
        oracles=["phantom", "evidence"],
        judge="run",
    ),
    Mutant(
        name="recorder-forgets-what-failed",
        bug="only answered operations get into the history: what a run cannot know looks as if it never was",
        module=RECORDER,
        edits=[
            Edit(
                "        self._history.record_batch(op, request.values or (NONE,))\n",
                "        if not request.is_write:\n            self._history.record_batch(op, request.values or (NONE,))\n",
            )
        ],
        oracles=["phantom", "evidence"],
        judge="run",
    ),
    Mutant(
        name="recorder-ends-operations-too-early",
        bug="an operation is recorded as if it had been answered when it was sent",
        module=RECORDER,
        edits=[
            Edit(
                "            type=Outcome.OK,\n            t_inv=t_inv,\n            t_ret=t_ret,\n",
                "            type=Outcome.OK,\n            t_inv=t_inv,\n            t_ret=t_inv,\n",
            )
        ],
        oracles=["stale", "order"],
        judge="run",
    ),
    Mutant(
        name="recorder-calls-unknown-a-failure",
        bug="an operation of unknown outcome is recorded as one that certainly did not happen",
        module=RECORDER,
        edits=[
            Edit(
                "            type=outcome,\n            t_inv=t_inv,\n",
                "            type=Outcome.FAIL,\n            t_inv=t_inv,\n",
            )
        ],
        oracles=["aborted_read", "evidence"],
        judge="run",
    ),
    Mutant(
        name="recorder-swaps-processes",
        bug="two clients are recorded under one process number",
        module=RECORDER,
        edits=[
            Edit(
                "            type=Outcome.OK,\n            t_inv=t_inv,\n            t_ret=t_ret,\n"
                "            object=request.object,\n            process=process,\n",
                "            type=Outcome.OK,\n            t_inv=t_inv,\n            t_ret=t_ret,\n"
                "            object=request.object,\n            process=process // 2,\n",
            )
        ],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="server-answers-reads-with-a-later-end",
        bug="a node answers a read with an end of the log that is seven records too late",
        module="raft.server",
        edits=[
            Edit(
                "client_codec.encode_records(request_id, self._driver.committed_end, batches)",
                "client_codec.encode_records(request_id, self._driver.committed_end + 7, batches)",
            )
        ],
        oracles=["answers"],
        judge="nodes",
    ),
    Mutant(
        name="server-acknowledges-in-a-later-term",
        bug="a node acknowledges an append in a term that is three too high",
        module="raft.server",
        edits=[
            Edit(
                "client_codec.encode_appended(request_id, base_offset, span, term)",
                "client_codec.encode_appended(request_id, base_offset, span, term + 3)",
            )
        ],
        oracles=["epoch"],
        judge="nodes",
    ),
    Mutant(
        name="history-loses-its-last-part",
        bug="the history's writer does not write what it still holds at the end",
        module="jepsen_like.history.files",
        edits=[
            Edit(
                "        try:\n            self.flush()\n            for part in self._in_flight:\n",
                "        try:\n            for part in self._in_flight:\n",
            )
        ],
        oracles=["phantom", "evidence"],
        judge="run",
    ),
    Mutant(
        name="outcomes-take-a-broken-connection-for-a-refusal",
        bug="a connection that broke is taken to mean that nothing happened",
        module="jepsen_like.systems.raft.clients",
        edits=[
            Edit(
                "    errors.OutcomeUnknown: (Outcome.INFO, ErrorCode.UNKNOWN_OUTCOME),\n",
                "    errors.OutcomeUnknown: (Outcome.FAIL, ErrorCode.UNKNOWN_OUTCOME),\n",
            ),
        ],
        oracles=["aborted_read"],
        judge="run",
    ),
)

NEMESES: Sequence[Mutant] = (
    Mutant(
        name="kill-kills-nobody",
        bug="the kill is announced and recorded, but sent to no process",
        module=PROCESSES,
        edits=[
            Edit(
                "        await cluster.kill(hit.nodes)\n        return look_at",
                "        await cluster.kill(())\n        return look_at",
            )
        ],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="pause-stops-nobody",
        bug="the pause is announced and recorded, but sent to no process",
        module=PROCESSES,
        edits=[Edit("        await cluster.pause(hit.nodes)\n", "        await cluster.pause(())\n")],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="pause-is-never-ended",
        bug="a paused process is not resumed, though its fault is recorded as undone",
        module=PROCESSES,
        edits=[Edit("            cluster.nodes[node].resume()\n", "            pass\n")],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="heal-forgets-the-first-link",
        bug="healing makes every link clear but the first",
        module="jepsen_like.cluster.fault_network",
        edits=[
            Edit(
                '        """Make every way clear."""\n        for link in self.links:\n',
                '        """Make every way clear."""\n        for link in self.links[1:]:\n',
            )
        ],
        oracles=["evidence", "recovered"],
        judge="run",
    ),
    Mutant(
        name="partition-cuts-nothing",
        bug="the links that a partition means are worked out, but never cut",
        module="jepsen_like.nemesis.links",
        edits=[
            Edit(
                '        """All at once."""\n        cluster.network.impose(CUT, hit.pairs, hit.clients)\n        return {}\n\n\nclass Partition',
                '        """All at once."""\n        cluster.network.impose(CUT, (), ())\n        return {}\n\n\nclass Partition',
            )
        ],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="partition-cuts-one-direction",
        bug="where both directions are meant, only one is cut",
        module=TARGETS,
        edits=[
            Edit(
                "for other in sorted(theirs) for pair in ((one, other), (other, one)))",
                "for other in sorted(theirs) for pair in ((one, other),))",
            )
        ],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="nemesis-never-hits-the-leader",
        bug="a fault aimed at the leader hits the node after it",
        module=TARGETS,
        edits=[
            Edit(
                "        case Target.LEADER:\n            return (leader,)\n",
                "        case Target.LEADER:\n            return (nodes[leader % len(nodes)],)\n",
            )
        ],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="nemesis-asks-nobody-who-leads",
        bug="the nemesis takes a node for the leader without asking",
        module="jepsen_like.nemesis.nemesis",
        edits=[
            Edit(
                "            self._last_leader = (scope, leaders[scope])\n",
                "            node = leaders[scope].node % len(self._cluster.nodes) + 1\n"
                "            self._last_leader = (scope, Leadership(node, leaders[scope].epoch))\n",
            )
        ],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="schedule-spares-the-leader",
        bug="a schedule has no fault for the leader any more",
        module="jepsen_like.nemesis.schedule",
        edits=[
            Edit(
                "    first = [(kind, Target.LEADER) for kind in kinds]\n",
                "    first = [(kind, kind.targets[0]) for kind in kinds]\n",
            ),
            Edit(
                "    rest = [(kind, Target.LEADER) for kind in kinds for _ in range(leader_hits - 1)]\n",
                "    rest = [(kind, kind.targets[0]) for kind in kinds for _ in range(leader_hits - 1)]\n",
            ),
        ],
        oracles=["evidence"],
        judge="run",
    ),
    Mutant(
        name="proxy-forgets-what-a-cut-holds-back",
        bug="a way that is cut takes bytes and forgets them, instead of leaving them for after its end",
        module="jepsen_like.cluster.fault_proxy",
        edits=[
            Edit(
                "not (self.way.condition.is_cut or self.at_end",
                "not (self.at_end",
            )
        ],
        oracles=["evidence"],
        judge="run",
    ),
)

CONTENTS: Sequence[Mutant] = (
    Mutant(
        name="vanish-removes-nothing",
        bug="what is to be gone from a disk is drawn and recorded, and stays there",
        module="jepsen_like.port.file_damage",
        edits=[
            Edit(
                "    if path.is_dir():\n        shutil.rmtree(path)\n    else:\n        path.unlink()\n    return f",
                "    return f",
            )
        ],
        oracles=["evidence"],
        judge="contents",
    ),
    Mutant(
        name="damage-writes-the-same-byte",
        bug="the bit that is to flip is written back as it was",
        module="jepsen_like.port.file_damage",
        edits=[Edit("file.write(bytes([byte ^ 1 << bit]))", "file.write(bytes([byte]))")],
        oracles=["evidence"],
        judge="contents",
    ),
    Mutant(
        name="disks-of-running-nodes-are-touched",
        bug="nodes are not stopped before their disks are touched",
        module="jepsen_like.nemesis.contents",
        edits=[Edit("            await stops.stop(cluster, group)\n", "            await stops.stop(cluster, ())\n")],
        oracles=["evidence", "nodes"],
        judge="contents",
    ),
    Mutant(
        name="stops-are-always-together",
        bug="nodes are stopped and started all at once, whatever the seed",
        module="jepsen_like.nemesis.stops",
        edits=[Edit("rng.choice(list(Order))", "rng.choice([Order.TOGETHER])")],
        oracles=["stops"],
        judge="stops",
    ),
    Mutant(
        name="stops-are-always-in-order-of-ids",
        bug="the nodes are stopped in the order of their ids, whatever the seed",
        module="jepsen_like.nemesis.stops",
        edits=[Edit("        rng.shuffle(shuffled)\n", "        rng.random()\n")],
        oracles=["stops"],
        judge="stops",
    ),
    Mutant(
        name="the-last-first-is-forgotten",
        bug="the node that was stopped last is never the first to start",
        module="jepsen_like.nemesis.stops",
        edits=[Edit("self.nodes[::-1] if self.order is Order.LAST_FIRST else self.nodes", "self.nodes")],
        oracles=["stops"],
        judge="stops",
    ),
)

VERDICTS: Sequence[Mutant] = (
    Mutant(
        name="promises-excuse-a-kill",
        bug="a lost record is excused by any fault near it, whatever was promised",
        module="jepsen_like.systems.raft.promises",
        edits=[
            Edit(
                "    loses = harm.reach is not Reach.NOTHING and flush is not FlushPolicy.BEFORE_ACK\n",
                "    loses = flush is not FlushPolicy.BEFORE_ACK\n",
            )
        ],
        oracles=["verdicts"],
        judge="verdicts",
    ),
    Mutant(
        name="verdict-forgets-what-it-did-not-see-recover",
        bug="a cluster that does not come to agree after it was healed is no trouble",
        module="jepsen_like.run.results",
        edits=[
            Edit(
                "    recovered = fail_for([observed.not_recovered] if observed.not_recovered is not None else [])\n",
                "    recovered = fail_for([])\n",
            )
        ],
        oracles=["verdicts"],
        judge="verdicts",
    ),
    Mutant(
        name="verdict-overlooks-broken-checks",
        bug="a run whose history holds is valid, whatever its nodes did",
        module="jepsen_like.run.results",
        edits=[
            Edit(
                "    valid = False if any(check.valid is False for check in checks.values()) else of_checker.valid\n",
                "    valid = of_checker.valid\n",
            )
        ],
        oracles=["verdicts"],
        judge="verdicts",
    ),
    Mutant(
        name="status-is-kind-to-violations",
        bug="a broken promise ends with the status of an open question",
        module="jepsen_like.run.command",
        edits=[
            Edit(
                "False: ExitStatus.VIOLATION, None: ExitStatus.UNKNOWN}",
                "False: ExitStatus.UNKNOWN, None: ExitStatus.UNKNOWN}",
            )
        ],
        oracles=["verdicts"],
        judge="verdicts",
    ),
    Mutant(
        name="evidence-believes-the-nemesis",
        bug="a killed process need not be gone",
        module="jepsen_like.record.evidence",
        edits=[
            Edit('    "kill": (GONE, "gone"),\n', '    "kill": (re.compile("pid"), "gone"),\n'),
        ],
        oracles=["verdicts"],
        judge="verdicts",
    ),
)

UNDOING: Sequence[Mutant] = (
    Mutant(
        name="evidence-does-not-look-at-what-is-undone",
        bug="what a fault broke need not be whole again after its end",
        module="jepsen_like.record.evidence",
        edits=[
            Edit(
                "for doubt in [*_of(fault, roles, nodes), *_not_undone(fault, faults)]]\n",
                "for doubt in _of(fault, roles, nodes)]\n",
            )
        ],
        oracles=["verdicts"],
        judge="verdicts",
    ),
    Mutant(
        name="verdict-of-a-run-that-never-came-to-its-faults",
        bug="a run that is interrupted before its faults is as valid as one that had them",
        module="jepsen_like.run.results",
        edits=[
            Edit(
                "    is_too_soon = observed.is_interrupted and bool(observed.kinds)",
                "    is_too_soon = False and bool(observed.kinds)",
            )
        ],
        oracles=["verdicts"],
        judge="verdicts",
    ),
)

LET_GO: Sequence[Mutant] = (
    Mutant(
        name="checker-calls-any-loss-expired",
        bug="with a rule of retention, acknowledged records that the final logs lack at their end count as expired",
        module="jepsen_like.checker.log.scan",
        edits=[
            Edit(
                "        left = (offset < final.start) & final.expires\n        lost, expired",
                "        left = ((offset < final.start) | (offset >= end)) & final.expires\n        lost, expired",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="checker-trusts-where-a-dump-begins",
        bug="a final log that begins late is believed to have let go what it may, though no rule lets anything go",
        module="jepsen_like.checker.log.check",
        edits=[
            Edit(
                "        return any(of_log.rule.may_expire for of_log in (self.kept or {}).values())\n",
                "        return bool(self.kept)\n",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="checker-does-not-look-at-what-is-kept",
        bug="a node with any rule of retention may let go as much as it likes",
        module="jepsen_like.checker.log.retention",
        edits=[
            Edit(
                "        if held >= rule.retention_bytes:\n",
                "        if held >= 0:\n",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="checker-excuses-a-file",
        bug="a log may keep less than its rule says by the size of a file: with small rules by all of it",
        module="jepsen_like.checker.log.retention",
        edits=[
            Edit(
                "    return SLACK_BYTES + TERM_BYTES * terms",
                "    return rule.segment_bytes_max + SLACK_BYTES + TERM_BYTES * terms",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="checker-believes-that-records-have-left",
        bug="a node that says that its log begins behind where it does is believed",
        module="jepsen_like.checker.log.retention",
        edits=[
            Edit(
                "        bound = kept.starts[op.node] if rule.starts_stay else kept.ends[op.node]\n",
                "        bound = kept.ends[op.node]\n",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="workload-believes-that-records-have-left",
        bug="a read may be refused with what has left a log, though nothing may leave it",
        module="jepsen_like.systems.raft.log_workload",
        edits=[
            Edit(
                "        if not self.expires or request.f is not Action.READ",
                "        if request.f is not Action.READ",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="forgiveness-does-not-know-what-has-left",
        bug="nothing is known of places that have left the logs: no loss there is forgiven, and too much before a fault is",
        module="jepsen_like.checker.log.tasks",
        edits=[Edit("final.content, allowances, final.start if expires else 0)", "final.content, allowances)")],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="forgiveness-looks-back-at-costly-faults-only",
        bug="the history before a fault is not looked at if the fault seems to have cost nothing, though that may have left",
        module="jepsen_like.checker.log.forgiveness",
        edits=[Edit("                if number in costly or self._expires\n", "                if number in costly\n")],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="checker-takes-part-of-a-log-for-all-of-it",
        bug="rows of a dump may be missing",
        module="jepsen_like.checker.rows.final_logs",
        edits=[Edit("            _require_whole(number, offset[mine], kept)\n", "            pass\n")],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="ledger-does-not-look-at-what-is-kept",
        bug="a log of records may have let go as much as it likes",
        module="jepsen_like.testing.ledger",
        edits=[
            Edit(
                "(missing := self._missing(starts[node], log)) > 0",
                "(missing := self._missing(starts[node], log)) > 2**62",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="ledger-forgives-what-nobody-holds",
        bug="where records may leave, a promised one that is in no log is taken to have left",
        module="jepsen_like.testing.ledger",
        edits=[
            Edit(
                "            if offset < begin and self.expires:\n",
                "            if offset not in held and self.expires:\n",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
)

HARNESS: Sequence[Mutant] = (*RECORDERS, *NEMESES, *CONTENTS, *VERDICTS, *UNDOING, *LET_GO)
