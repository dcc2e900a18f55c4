"""Deliberate bugs of groups by KIP-848, and of consumers that read from followers (KIP-392)."""

from collections.abc import Sequence

from tests.mutants.kafka_bugs import kafka_bug
from tests.mutants.mutant import Mutant

GROUP = "kafka_compat.coordinator.consumer_group"
REQUESTS = "kafka_compat.coordinator.consumer_requests"
MIGRATION = "kafka_compat.coordinator.migration"
CLASSIC_MEMBERS = "kafka_compat.coordinator.classic_members"
FOLLOWER = "kafka_compat.partition.follower"
LEADER = "kafka_compat.partition.leader"

KAFKA_CONSUMER_BUGS: Sequence[Mutant] = (
    kafka_bug(
        "consumer-gives-on-what-is-still-read",
        "a member's lost partitions are free before it gives them back",
        GROUP,
        ("        if lost and _may_own(owned, lost):", "        if False:"),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-takes-what-another-has",
        "a member gets its whole target at once, whoever still has some of it",
        GROUP,
        ("for each in target if each not in self.owners)", "for each in target)"),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-answers-before-the-write",
        "a heartbeat is answered before its epoch is written",
        REQUESTS,
        ("            last.answers.append((event, response))", "            self.out.answer(event.token, response)"),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-trusts-writes-behind-a-failed-one",
        "heartbeats are answered by a later write, although an earlier one failed",
        REQUESTS,
        ("        for each in (write, *self._writes_of(write.group)):", "        for each in (write,):"),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-forgets-a-failed-write",
        "records whose write failed are not written again",
        GROUP,
        ("        self.touched |= members\n", "        pass\n"),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-lost-epoch-is-not-mended",
        "a group whose newest epoch is missing from the log stays behind its target assignment",
        GROUP,
        ("            self.epoch = max(self.epoch, self.target_epoch + 1)\n\n\n", "\n\n\n"),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-epochs-fence-nobody",
        "a member in another epoch is taken for one in this",
        REQUESTS,
        ("    if request.member_epoch != member.epoch and not unanswered:", "    if False:"),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-may-never-give-back",
        "a member that does not give partitions back within its rebalance timeout stays",
        REQUESTS,
        (
            "            if min(member.session_deadline, member.revocation_deadline) <= now:",
            "            if member.session_deadline <= now:",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-instance-is-taken-over",
        "a second member with an instance id takes the place of one that is there",
        REQUESTS,
        ("        elif static.epoch != LEFT_FOR_A_TIME and static.classic is None:", "        elif False:"),
        oracles=["script"],
    ),
    kafka_bug(
        "consumer-commits-in-any-epoch",
        "a member commits offsets in an epoch that has passed",
        REQUESTS,
        ("KafkaErrorCode.NONE if member.epoch == epoch else", "KafkaErrorCode.NONE if True else"),
        oracles=["K10", "script"],
    ),
    kafka_bug(
        "upgrade-forgets-what-members-have",
        "the classic members of a group that moves over have no partitions, which others get at once",
        MIGRATION,
        ("        held = read_assignment(member.assignment, topics) - made.owners.keys()", "        held = NOTHING"),
        oracles=["script"],
    ),
    kafka_bug(
        "upgrade-gives-on-what-may-be-read",
        "what a leader took from a classic member is given on before that one has heard so",
        MIGRATION,
        ("        if revoking := owned[consumer.id] - made.owners.keys():", "        if revoking := frozenset():"),
        oracles=["script"],
    ),
    kafka_bug(
        "upgrade-keeps-the-classic-group",
        "the record of the classic group outlives its end",
        REQUESTS,
        ("            group.owed += (group_key(name), *self.membership.owed.pop(name, ()))", "            pass"),
        oracles=["script"],
    ),
    kafka_bug(
        "upgrade-leaves-sessions-open",
        "a classic member has the session timeout of the newer protocol",
        REQUESTS,
        ("if classic is None else classic.session_timeout_ms", "if True else 0"),
        oracles=["script"],
    ),
    kafka_bug(
        "upgrade-takes-any-protocol",
        "a member joins with protocols that the other classic members do not have",
        GROUP,
        ("        return any(all(name in each for each in supported) for name in names)", "        return True"),
        oracles=["script"],
    ),
    kafka_bug(
        "upgraded-members-are-not-told-to-join",
        "a classic member is not told that its partitions are to move",
        GROUP,
        (
            "        if member.epoch < self.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:",
            "        if member.state is MemberState.UNREVOKED_PARTITIONS:",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "upgraded-members-own-nothing-when-they-join",
        "what a classic member states to have is not heard, so its partition is given on at once",
        CLASSIC_MEMBERS,
        ("known_partitions(subscription.owned, self.consumers.topics)", "frozenset()"),
        oracles=["script"],
    ),
    kafka_bug(
        "upgraded-members-never-have-to-join",
        "a classic member that does not join again in time stays",
        CLASSIC_MEMBERS,
        (
            "        member.revocation_deadline = self.out.now + max(member.rebalance_timeout_ms, 0) / 1000\n",
            "        member.revocation_deadline = self.out.now + 10_000\n",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "upgraded-members-are-in-any-generation",
        "a heartbeat or a SyncGroup of another generation counts",
        CLASSIC_MEMBERS,
        (
            "    return NONE if request.generation_id == member.epoch else KafkaErrorCode.ILLEGAL_GENERATION",
            "    return NONE",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "downgrade-forgets-its-tombstones",
        "records of the newer protocol outlive a failed write of the classic group",
        REQUESTS,
        ("take_over(classic, (*group.owed, *group.written))", "take_over(classic, ())"),
        oracles=["script"],
    ),
    kafka_bug(
        "downgrade-forgets-what-is-still-read",
        "a member has given nothing back yet when the group moves back and over again, and another gets its partition",
        MIGRATION,
        ("write_assignment(member.held, topics", "write_assignment(member.assigned, topics"),
        oracles=["script"],
    ),
    kafka_bug(
        "downgrade-raises-the-generation",
        "members lose their partitions, because none is in the generation of the classic group",
        MIGRATION,
        ("        generation=group.target_epoch,", "        generation=group.epoch,"),
        oracles=["script"],
    ),
    kafka_bug(
        "follower-serves-what-is-not-committed",
        "a follower answers consumers up to the end of its log",
        FOLLOWER,
        ("if event.read_committed else log.high_watermark", "if event.read_committed else log.log_end"),
        oracles=["script"],
    ),
    kafka_bug(
        "follower-serves-any-epoch",
        "a follower does not compare the leader epoch of a consumer",
        FOLLOWER,
        ("            error = epoch_error(self.epoch, event.leader_epoch)\n", "            pass\n"),
        oracles=["script"],
    ),
    kafka_bug(
        "leader-sends-consumers-out-of-the-isr",
        "a consumer is sent to a replica that is not in sync",
        LEADER,
        ("if replica in near and replica in self.isr.committed and", "if replica in near and"),
        oracles=["script"],
    ),
)
