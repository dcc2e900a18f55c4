"""Deliberate bugs of what members may claim: each takes away one guard of the list in `docs/security.md`."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

OBJECTIONS = "raft.objections"
LEADER = "kafka_compat.partition.leader"
FOLLOWER = "kafka_compat.partition.follower"
ANSWERS = "kafka_compat.controller.answers"
MASTER = "rocketmq_compat.replication.master"
SLAVE = "rocketmq_compat.replication.slave"


def unguard(name: str, bug: str, module: str, guard: str, without: str) -> Mutant:
    """Returns the mutant in which `without` stands in place of a guard."""
    return plant(name, bug, module, guard, without, oracles=["claims"], judge="claims")


OF_RAFT = (
    unguard(
        "claims-two-leaders-in-a-term",
        "a node that says that it leads is believed, though another leads in that term",
        OBJECTIONS,
        "(leader := core.leader) is not None and leader != sender:",
        "(leader := core.leader) is not None and not leader:",
    ),
    unguard(
        "claims-of-any-sender-go-on",
        "entries behind the end of the log are believed of any node of the term",
        OBJECTIONS,
        "            and role.leader == sender\n",
        "",
    ),
    unguard(
        "claims-of-any-offset-go-on",
        "entries behind the end of the log may begin at any offset",
        OBJECTIONS,
        "            and not (entries and entries[0].base_offset != log.end_offset)\n",
        "",
    ),
    unguard(
        "claims-to-lead-before-all-terms",
        "a leader of term 0 is followed",
        OBJECTIONS,
        "    if message.term == NO_TERM:\n",
        "    if message.term < NO_TERM:\n",
    ),
    unguard(
        "claims-of-candidates-go-unseen",
        "a candidate may have entries of the term that it asks for",
        OBJECTIONS,
        "    if request.last_term >= request.term or (request.last_index == NO_INDEX) != (request.last_term == NO_TERM):\n",
        "    if request.last_term > request.term:\n",
    ),
    unguard(
        "claims-of-another-past",
        "a leader may name another past than is committed",
        OBJECTIONS,
        "settled) if prev_index <= settled else None",
        "settled) if prev_index < NO_INDEX else None",
    ),
    unguard(
        "claims-of-other-entries",
        "a leader may replace what is committed",
        OBJECTIONS,
        "    if prev_index < settled and (wrong",
        "    if prev_index < NO_INDEX and (wrong",
    ),
    unguard(
        "claims-against-its-own-word",
        "a leader may replace what it has sent itself",
        OBJECTIONS,
        "        return max(core.commit_index, role.verified_index)\n",
        "        return core.commit_index\n",
    ),
    unguard(
        "claims-of-gaps-between-records",
        "the offset at which an entry begins is a leader's to choose",
        OBJECTIONS,
        "not in (None, missing[0].base_offset):",
        "is None:",
    ),
    unguard(
        "claims-of-endless-logs",
        "a log may have so many entries that none can follow",
        OBJECTIONS,
        "    if prev_index + len(entries) > INDEX_MAX:\n",
        "    if prev_index < NO_INDEX:\n",
    ),
    unguard(
        "claims-of-endless-snapshots",
        "a snapshot may stand for so many entries that none can follow",
        OBJECTIONS,
        "    if max(start.index, start.applied.index, start.offset) > INDEX_MAX:\n",
        "    if start.index < NO_INDEX:\n",
    ),
    unguard(
        "claims-of-rounds-to-come",
        "a follower confirms the heartbeats of all times to come",
        OBJECTIONS,
        "    if reply.round > leader.round:\n",
        "    if reply.round < 0:\n",
    ),
    unguard(
        "claims-of-entries-to-come",
        "a follower acknowledges what was never sent",
        OBJECTIONS,
        "    if claimed > last_index:\n",
        "    if claimed < NO_INDEX:\n",
    ),
    unguard(
        "claims-of-places-ahead",
        "a follower that refuses a place may point behind it",
        OBJECTIONS,
        "            if hint_index > prev_index:\n",
        "            if hint_index < NO_INDEX:\n",
    ),
    unguard(
        "claims-of-standings-without-bound",
        "one member gives a node that remembers nothing any term",
        "raft.recall",
        "        return min(terms, default=NO_TERM) + TERM_STEP_MAX\n",
        "        return max(terms, default=2**61)\n",
    ),
    unguard(
        "claims-of-gaps-on-the-disk",
        "an entry that replaces one on the disk may begin anywhere, which ends the node",
        "raft.inbox",
        "            if due != missing[0].base_offset:\n",
        "            if due < 0:\n",
    ),
    unguard(
        "claims-of-older-leaders-looked-up",
        "the log is read for what an older leader's entries would replace, also below its start, which ends the node",
        "raft.inbox",
        " and message.term >= self._core.term:\n",
        ":\n",
    ),
    unguard(
        "claims-of-snapshots-that-forget",
        "a snapshot may begin before records that are committed",
        "raft.inbox",
        "and message.start.offset < committed_end:",
        "and message.start.offset < 0:",
    ),
    unguard(
        "claims-of-snapshots-that-are-none",
        "bytes that the state machine cannot read end the node",
        "raft.inbox",
        "            if problem is not None:\n",
        "            if problem == '':\n",
    ),
    unguard(
        "claims-of-places-that-are-none",
        "a member may have an address that ends each node that dials it",
        "raft.codec",
        "        if not is_address(address):\n",
        "        if not address:\n",
    ),
    unguard(
        "claims-of-commands-that-are-none",
        "bytes that are no commands end every member",
        "raft.applier",
        "    with suppress(ValueError, msgpack.UnpackException):\n",
        "    with suppress(ZeroDivisionError):\n",
    ),
)

OF_KAFKA = (
    unguard(
        "claims-of-fetches-beyond-the-end",
        "a follower that fetches behind the leader's log has all of it",
        LEADER,
        "            if end.epoch < last_fetched_epoch or end.end_offset < offset:\n",
        "            if end.epoch < last_fetched_epoch and end.end_offset < offset:\n",
    ),
    unguard(
        "claims-of-batches-that-overlap",
        "a leader may send again what its follower has",
        FOLLOWER,
        "            if batch.offset_count <= 0 or batch.base_offset < end:\n",
        "            if batch.offset_count <= 0:\n",
    ),
    unguard(
        "claims-of-epochs-to-come",
        "a leader may send batches of a leadership to come",
        FOLLOWER,
        "            if not epoch <= batch.leader_epoch <= self.epoch:\n",
        "            if batch.leader_epoch < epoch:\n",
    ),
    unguard(
        "claims-of-logs-that-do-not-part",
        "a follower truncates though its log and the leader's agree",
        FOLLOWER,
        " or (end == log.log_end and diverging.epoch >= log.epochs.last):",
        ":",
    ),
    unguard(
        "claims-of-isrs-beyond-the-replicas",
        "a leader may take any broker into the ISR",
        "kafka_compat.controller.alter_partition",
        " or not set(brokers) <= set(state.replicas):",
        ":",
    ),
    unguard(
        "claims-of-isrs-of-others",
        "any broker may change the ISR of a partition",
        "kafka_compat.controller.alter_partition",
        "    if sender != state.leader:\n",
        "    if sender < 0:\n",
    ),
    unguard(
        "claims-of-broker-epochs-to-come",
        "a member with an epoch that never was stops all changes of its ISRs",
        "kafka_compat.partition.isr",
        "epoch is not None and epoch > registered):",
        "epoch is not None and epoch < NO_EPOCH):",
    ),
    unguard(
        "claims-of-logs-that-begin-late",
        "a leader's log may begin behind what is committed",
        FOLLOWER,
        "        if event.log_start > event.high_watermark >= 0 or max",
        "        if max",
    ),
    unguard(
        "claims-of-trims-that-were-none",
        "a leader takes the log of a follower that it could compare",
        FOLLOWER,
        "(event.log_start < log.log_end and log.epochs.last != NO_EPOCH):",
        "event.log_start < 0:",
    ),
    unguard(
        "claims-of-batches-before-all",
        "an empty log may begin before the first offset",
        FOLLOWER,
        "        if 0 <= first.base_offset < end <",
        "        if first.base_offset < end <",
    ),
    unguard(
        "claims-of-batches-without-epoch",
        "an empty log takes a batch of no epoch, which its store refuses",
        FOLLOWER,
        "        end, epoch = log.log_end, max(log.epochs.last, 0)\n",
        "        end, epoch = log.log_end, log.epochs.last\n",
    ),
    unguard(
        "claims-of-endless-partitions",
        "a batch may end where no offset of the wire can follow",
        FOLLOWER,
        "if end > OFFSET_MAX else None",
        "if end < 0 else None",
    ),
    unguard(
        "claims-of-errors-that-are-none",
        "an unknown error leaves a partition without an answer for ever",
        "kafka_compat.protocol.error_codes",
        "    except ValueError:\n",
        "    except ZeroDivisionError:\n",
    ),
    unguard(
        "claims-of-sessions-without-end",
        "a follower may open fetch sessions without bound",
        "kafka_compat.broker.requests.fetch",
        "        if len(own) >= FOLLOWER_SESSIONS_MAX:\n",
        "        if len(own) < 0:\n",
    ),
    unguard(
        "claims-to-refuse-without-end",
        "a leader that refuses all keeps its follower busy with asking",
        "kafka_compat.broker.fetcher",
        "            if not isinstance(response, PeerFailed) and self._session_id == NO_SESSION:\n",
        "            if not isinstance(response, PeerFailed) and self._session_id < NO_SESSION:\n",
    ),
    unguard(
        "claims-of-any-result",
        "a controller may answer with the result of another command",
        "kafka_compat.broker.controller_link",
        "        if fits(waiting.asked, result):\n",
        "        if result is not None:\n",
    ),
    unguard(
        "claims-of-another-isr",
        "a controller may answer with another ISR than was asked for",
        ANSWERS,
        "state.leader == broker and isr == wanted",
        "state.leader == broker",
    ),
    unguard(
        "claims-of-any-number-of-ids",
        "a controller may give out ids without bound",
        ANSWERS,
        "(result.first >= 0 and result.count == PRODUCER_IDS_PER_BLOCK)",
        "result.first >= 0",
    ),
    unguard(
        "claims-to-be-the-controller",
        "any broker answers heartbeats in place of the controller",
        "kafka_compat.broker.controller_link",
        "            if self.leader in (None, broker):",
        "            if broker >= 0:",
    ),
    unguard(
        "claims-to-have-applied-what-is-not-there",
        "a heartbeat may name an index that no log has",
        "kafka_compat.broker.controller_node",
        "request.applied_index > self.last_index():",
        "request.applied_index < -1:",
    ),
    unguard(
        "claims-of-log-ends-to-come",
        "a log end of an epoch to come wins the comparison",
        "kafka_compat.controller.elections",
        " and is_present and report.last_epoch <= state.leader_epoch:",
        " and is_present:",
    ),
)

OF_ROCKETMQ = (
    unguard(
        "claims-of-reports-beyond-what-was-pushed",
        "a slave acknowledges what was never pushed to it",
        MASTER,
        "            case Report(end=end) if end > slave.pushed_end:\n",
        "            case Report(end=end) if end < 0:\n",
    ),
    unguard(
        "claims-of-tables-unasked",
        "a slave moves the offsets of consumers as it likes",
        MASTER,
        "        if not slave.owes_tables:\n",
        "        if not slave.is_taken:\n",
    ),
    unguard(
        "claims-of-lenders-that-shake-again",
        "a slave that lends may shake hands again on its connection",
        MASTER,
        "            case Handshake() if slave.is_taken or self.copy_back.reads_from(connection):\n",
        "            case Handshake() if slave.is_taken:\n",
    ),
    unguard(
        "claims-of-lenders-that-come-twice",
        "a slave that lends may have a second connection, and counts twice",
        MASTER,
        " or each.connection == lends\n",
        "\n",
    ),
    unguard(
        "claims-of-pushes-elsewhere",
        "a slave takes what does not follow its log",
        SLAVE,
        "        if push.offset != log.log_end:\n",
        "        if push.offset < 0:\n",
    ),
    unguard(
        "claims-of-welcomes-into-the-log",
        "a master may have its slave drop what it has",
        SLAVE,
        "            if log.log_start < log.log_end and start < log.log_end:\n",
        "            if start < 0:\n",
    ),
    unguard(
        "claims-of-lending-more",
        "a slave may lend more than it has claimed to have",
        MASTER,
        " or push.offset + len(push.payload) > source.end:",
        ":",
    ),
    unguard(
        "claims-of-cuts-behind-the-end",
        "a master offers an operator a cut behind the end of the slave's log",
        SLAVE,
        "                if 0 <= agreed <= self.log.log_end:",
        "                if 0 <= agreed:",
    ),
    unguard(
        "claims-of-the-last-epoch",
        "a push may have an epoch that leaves none for the next master",
        "rocketmq_compat.replication.ha_codec",
        "    if not 0 < number <= EPOCH_MAX:\n",
        "    if not 0 < number <= OFFSET_MAX:\n",
    ),
    unguard(
        "claims-of-tables-of-any-kind",
        "a leader may put text in the place of offsets",
        "rocketmq_compat.raft_state",
        " or not all(_is_count(number) for number in counted):",
        ":",
    ),
    unguard(
        "claims-of-messages-that-are-none",
        "bytes that are no messages end every broker of a raft group",
        "rocketmq_compat.broker.raft_copy",
        "            except BadRecord:\n",
        "            except ZeroDivisionError:\n",
    ),
)

CLAIM_BUGS: Sequence[Mutant] = (*OF_RAFT, *OF_KAFKA, *OF_ROCKETMQ)
