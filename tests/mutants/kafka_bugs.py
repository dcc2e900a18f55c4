"""Deliberate bugs of the Kafka deciders: the guards whose removal is known to lose data, and more of their kind."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant

LEADER = "kafka_compat.partition.leader"
FOLLOWER = "kafka_compat.partition.follower"
CORE = "kafka_compat.partition.core"
ISR = "kafka_compat.partition.isr"
WATERMARK = "kafka_compat.partition.high_watermark"
LOG = "kafka_compat.partition.replica_log"
EPOCHS = "kafka_compat.partition.leader_epochs"
PRODUCERS = "kafka_compat.partition.producer_state"
ALTER = "kafka_compat.controller.alter_partition"
ELECTIONS = "kafka_compat.controller.elections"
MACHINE = "kafka_compat.controller.machine"
COORDINATOR = "kafka_compat.coordinator.core"
OFFSET_REQUESTS = "kafka_compat.coordinator.offset_requests"
KAFKA_HAPPY = ("tests/kafka_compat/protocol/test_batch_header.py",)


def kafka_bug(name: str, bug: str, module: str, *edits: tuple[str, str], oracles: Sequence[str]) -> Mutant:
    """A bug that simulated Kafka clusters, or else the tests of the deciders, are to find; its name begins with `kafka-`."""
    return Mutant(
        name=f"kafka-{name}",
        bug=bug,
        module=module,
        edits=[Edit(old, new) for old, new in edits],
        oracles=oracles,
        judge="kafka",
        happy=KAFKA_HAPPY,
    )


KAFKA_BUGS: Sequence[Mutant] = (
    kafka_bug(
        "registers-over-a-living-process",
        "another incarnation is registered although the old one is not fenced (guard 1)",
        MACHINE,
        ("    if existing is not None and not existing.fenced:", "    if False:"),
        oracles=["K1", "K9", "K2", "script"],
    ),
    kafka_bug(
        "same-leader-keeps-its-fetch",
        "a new epoch of the same leader does not begin a new fetch (guard 2)",
        CORE,
        (
            "        elif is_news or (isinstance(self.role, LeaderReplica) and state.leader != self.broker_id):",
            "        elif (is_news and getattr(self.role, 'leader', None) != state.leader) or (\n"
            "            isinstance(self.role, LeaderReplica) and state.leader != self.broker_id\n        ):",
        ),
        oracles=["K1", "K2", "K3", "script"],
    ),
    kafka_bug(
        "expands-without-a-fetch",
        "a follower joins the ISR without a fetch in this epoch (guards 3 and 4)",
        ISR,
        (
            "        follower.log_end >= max(high_watermark, epoch_start, 0)\n"
            "        and follower.log_start >= log_start\n"
            "        and follower.is_eligible(registration)\n",
            "        follower.log_end == -1 or follower.log_end >= max(high_watermark, epoch_start, 0)\n",
        ),
        oracles=["K1", "K2", "script"],
    ),
    kafka_bug(
        "expands-before-the-log-start",
        "a follower joins the ISR with what the leader has let go of, and may never have had",
        ISR,
        ("        and follower.log_start >= log_start\n", ""),
        oracles=["K1", "K2", "K3", "script"],
    ),
    kafka_bug(
        "expands-below-the-high-watermark",
        "a follower joins the ISR below the high watermark (guard 5)",
        ISR,
        ("max(high_watermark, epoch_start, 0)", "max(epoch_start, 0)"),
        oracles=["K1", "K2", "script"],
    ),
    kafka_bug(
        "expands-below-the-epoch-start",
        "a follower joins the ISR below the start of the leader epoch (guard 6)",
        ISR,
        ("max(high_watermark, epoch_start, 0)", "max(high_watermark, 0)"),
        oracles=["K1", "K2", "script"],
    ),
    kafka_bug(
        "takes-an-answer-of-another-offset",
        "an answer counts although the log has changed since the fetch (guard 7)",
        FOLLOWER,
        (
            "            or event.fetch_offset != self.fetching_from\n            or event.fetch_offset != log.log_end\n"
            "            or event.last_fetched_epoch not in (None, log.epochs.last)\n",
            "",
        ),
        (
            "            if batch.offset_count <= 0 or batch.base_offset < end:",
            "            if batch.offset_count <= 0:",
        ),
        oracles=["K1", "K2", "K3", "script"],
    ),
    kafka_bug(
        "takes-an-answer-of-another-epoch",
        "an answer counts although it is of another leader epoch (guard 8)",
        FOLLOWER,
        ("            event.leader_epoch != self.epoch\n            or event", "            event"),
        oracles=["K1", "K2", "K3", "K6", "script"],
    ),
    kafka_bug(
        "no-broker-epoch-check",
        "the controller takes any broker epoch into an ISR (guard 9, KIP-903)",
        ALTER,
        ("    elif member.epoch not in (NO_EPOCH, registration.epoch):", "    elif False:"),
        oracles=["K1", "K2", "script"],
    ),
    kafka_bug(
        "no-partition-epoch-check",
        "the controller takes an AlterPartition that knows an older ISR (guard 10)",
        ALTER,
        ("    if change.partition_epoch < state.partition_epoch:", "    if False:"),
        oracles=["K1", "K2", "script"],
    ),
    kafka_bug(
        "high-watermark-of-the-committed-isr",
        "the high watermark counts the committed ISR instead of the maximal one (guard 11)",
        LEADER,
        ("self.followers.values(), isr.maximal, now)", "self.followers.values(), frozenset(isr.committed), now)"),
        oracles=["K1", "K2", "script"],
    ),
    kafka_bug(
        "truncates-to-the-high-watermark",
        "a diverging follower truncates to its high watermark (guard 12, KIP-101)",
        FOLLOWER,
        (
            "            self.truncating_to = end\n            out.append(TruncateLog(end))",
            "            end = min(end, log.high_watermark)\n            self.truncating_to = end\n"
            "            out.append(TruncateLog(end))",
        ),
        oracles=["K1", "K2", "script"],
    ),
    kafka_bug(
        "high-watermark-before-truncation",
        "a diverging answer moves the high watermark (guard 13, KAFKA-14704)",
        FOLLOWER,
        (
            "                self._truncate(event.diverging, event.log_start, now, out)",
            "                log.set_high_watermark(event.high_watermark, out)\n"
            "                self._truncate(event.diverging, event.log_start, now, out)",
        ),
        oracles=["K6", "script"],
    ),
    kafka_bug(
        "no-strict-min-isr",
        "the high watermark moves although the ISR is below min.insync.replicas (guard 14, KAFKA-15583)",
        LEADER,
        ("if self._context.config.strict_min_isr and len(isr.committed) < self._min_isr:", "if False:"),
        oracles=["K2", "script"],
    ),
    kafka_bug(
        "epoch-cache-not-trimmed",
        "a truncation does not trim the leader epochs (guard 15, KAFKA-10706)",
        LOG,
        ("        self.epochs.truncate(end)\n", ""),
        oracles=["V-liveness", "K1", "K2", "K3", "script"],
    ),
    kafka_bug(
        "acknowledges-at-once",
        "acks=all is answered before the batch is replicated",
        LEADER,
        ("            ready = end_offset <= log.high_watermark\n", "            ready = True\n"),
        oracles=["K2", "script"],
    ),
    kafka_bug(
        "acknowledges-what-is-not-flushed",
        "where only a flushed copy counts, the leader counts its page cache",
        LOG,
        ("return self.flushed_end if self.before_ack else self.log_end", "return self.log_end"),
        oracles=["K2", "script"],
    ),
    kafka_bug(
        "follower-promises-what-is-not-flushed",
        "where only a flushed copy counts, a follower fetches from its page cache's end",
        LOG,
        ("return not self.before_ack or self.flushed_end >= self.log_end", "return True"),
        oracles=["K2", "script"],
    ),
    kafka_bug(
        "no-min-isr-before-append",
        "acks=all is taken although the ISR is too small, and acknowledged",
        "kafka_compat.partition.acks",
        ("    if acks == -1 and isr_size < min_isr:", "    if False:"),
        oracles=["K2", "script"],
    ),
    kafka_bug(
        "silent-follower-rejoins",
        "a follower that was just taken out for its silence joins again without a fetch",
        LEADER,
        (" and follower.is_caught_up(log_end, now, lag_time_s):", ":"),
        oracles=["K1"],
    ),
    kafka_bug(
        "no-fetch-after-truncation",
        "news of the same epoch during a truncation leave a follower without a fetch",
        CORE,
        ("        if self.role is role:  #", "        if state is None:  #"),
        oracles=["V-liveness", "K6"],
    ),
    kafka_bug(
        "duplicates-are-appended",
        "a batch that is in the log already is appended again",
        PRODUCERS,
        (
            "            if kept.first_sequence == first and kept.last_sequence == last:\n                return kept\n",
            "            if kept.first_sequence == first and kept.last_sequence == last:\n"
            "                return KafkaErrorCode.NONE\n",
        ),
        oracles=["K5", "script"],
    ),
    kafka_bug(
        "gaps-are-appended",
        "a batch is appended although an earlier one of its producer is missing",
        PRODUCERS,
        (
            "        return KafkaErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER\n\n    def _check",
            "        return KafkaErrorCode.NONE\n\n    def _check",
        ),
        oracles=["K5", "script"],
    ),
    kafka_bug(
        "producers-survive-a-truncation",
        "a truncation does not roll producers back",
        LOG,
        (
            "            self.producers.restore(producers, now, transactions)\n            self.window.reset(end)",
            "            self.window.reset(end)",
        ),
        oracles=["K5", "K2", "script"],
    ),
    kafka_bug(
        "followers-do-not-know-producers",
        "a follower does not record the producers of what it fetches",
        LOG,
        ("        self.producers.record(batch, base_offset, now)\n", "        pass\n"),
        oracles=["K5", "script"],
    ),
    kafka_bug(
        "reads-past-the-high-watermark",
        "a consumer is given what is not committed",
        LEADER,
        (
            "self._answer_or_wait(waiting, self._limit_of(waiting), self.waits.consumers, now, out)",
            "self._answer_or_wait(waiting, self._log.log_end, self.waits.consumers, now, out)",
        ),
        oracles=["K3", "script"],
    ),
    kafka_bug(
        "no-divergence-check",
        "a leader does not compare the epoch of a follower's last batch",
        LEADER,
        ("            if end.epoch < last_fetched_epoch or end.end_offset < offset:", "            if False:"),
        oracles=["K1", "K2", "K3", "script"],
    ),
    kafka_bug(
        "fenced-broker-is-elected",
        "a broker that is fenced is elected",
        ELECTIONS,
        ("        if replica in state.elr and image.active(replica):", "        if replica in state.elr:"),
        oracles=["K4", "script"],
    ),
    kafka_bug(
        "unclean-without-leave",
        "an unclean election where it is not allowed",
        ELECTIONS,
        ("    if rule is ElectionRule.UNCLEAN:", "    if True:"),
        oracles=["K4", "script"],
    ),
    kafka_bug(
        "no-epoch-of-an-election",
        "another leader has the same leader epoch",
        ELECTIONS,
        ("        leader_epoch=before.leader_epoch + is_new,\n", ""),
        oracles=["K4", "script"],
    ),
    kafka_bug(
        "fenced-member-joins",
        "a broker that is fenced is taken into an ISR",
        ALTER,
        ("    elif registration.fenced:", "    elif False:"),
        oracles=["K4", "script"],
    ),
    kafka_bug(
        "offsets-answered-before-they-are-written",
        "a commit that failed is answered as if it was written",
        COORDINATOR,
        (
            "self._offset_requests.build_response(request, client_error(error))",
            "self._offset_requests.build_response(request, KafkaErrorCode.NONE)",
        ),
        oracles=["K8", "script"],
    ),
    kafka_bug(
        "offsets-not-loaded",
        "a new coordinator does not load offsets",
        COORDINATOR,
        ("                    self.offsets.load(group, topic, partition, offset)", "                    pass"),
        oracles=["K8", "script"],
    ),
    kafka_bug(
        "commit-of-an-earlier-generation",
        "a member commits what it owned before the rebalance",
        OFFSET_REQUESTS,
        (
            """    if error is KafkaErrorCode.NONE and generation != group.generation:
        return KafkaErrorCode.ILLEGAL_GENERATION
""",
            "",
        ),
        oracles=["K10", "script"],
    ),
    kafka_bug(
        "commit-of-a-removed-member",
        "a member that was removed commits on",
        OFFSET_REQUESTS,
        ("    error = group.member_error(member_id, request.group_instance_id)\n", "    error = KafkaErrorCode.NONE\n"),
        oracles=["K10", "script"],
    ),
    kafka_bug(
        "commit-between-generations",
        "a member commits what it owned before the rebalance until the next assignments are written",
        OFFSET_REQUESTS,
        (
            "    if error is KafkaErrorCode.NONE and generation != group.generation:",
            "    if generation == group.generation - 1 and group.state is GroupState.COMPLETING_REBALANCE:\n"
            "        return error\n"
            "    if error is KafkaErrorCode.NONE and generation != group.generation:",
        ),
        oracles=["K10", "script"],
    ),
)
