"""Deliberate bugs of mirror and switch: records lost or doubled, consumers that skip, and old mirrors that still write."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

MAP = "jepsen_like.mirror.offset_map"
LINK = "jepsen_like.mirror.link"
KEPT = "jepsen_like.mirror.kept"
CORE = "jepsen_like.mirror.core"
BATCHES = "jepsen_like.mirror.kafka.batches"
OPENING = "jepsen_like.mirror.kafka.opening"
READING = "jepsen_like.mirror.kafka.reading"
SESSION = "jepsen_like.mirror.kafka.session"
SWITCH = "jepsen_like.mirror.kafka.switch"
WRITING = "jepsen_like.mirror.kafka.writing"
ORIGINS = "jepsen_like.mirror.rocketmq.origin"
QUEUES = "jepsen_like.mirror.rocketmq.session"
QUEUES_OPENED = "jepsen_like.mirror.rocketmq.opening"
QUIET = ("tests/jepsen_like/mirror/kafka/test_batches.py::test_sequence_numbers_wrap_at_31_bits",)
_bug = partial(plant, judge="standby", oracles=["standby"], happy=QUIET)

STANDBY_BUGS: Sequence[Mutant] = (
    _bug(
        "mirror-offset-off-by-one",
        "a translated offset is one too high, so that a consumer skips a record",
        MAP,
        "return run.target + min(offset - run.source, run.count)",
        "return run.target + min(offset - run.source + 1, run.count)",
    ),
    _bug(
        "rocketmq-mirror-ends-with-a-broker-that-restarts",
        "a mirror is refused for good while a broker that it has copied from is away",
        "jepsen_like.mirror.rocketmq.cluster",
        "        if missing:\n",
        "        if missing and not self.names:\n",
    ),
    _bug(
        "mirror-gap-carried-over",
        "a position in a gap of the source is counted on in the target, where there is no gap",
        MAP,
        "return run.target + min(offset - run.source, run.count)",
        "return run.target + offset - run.source",
    ),
    _bug(
        "mirror-offsets-untranslated",
        "groups get the offsets of the source as they are",
        CORE,
        "(translated := self._partitions[at].map.translate(offset))",
        "(translated := offset)",
    ),
    _bug(
        "mirror-forgets-a-new-beginning",
        "what was known of a topic counts on after it was made again",
        KEPT,
        "there = [run for each in own.points.get(partition, ()) if each.epoch >= since for run in each.runs]",
        "there = [run for each in own.points.get(partition, ()) for run in each.runs]",
    ),
    _bug(
        "mirror-position-passes-what-waits",
        "the committed position is where the source was read to, also while batches wait for the next transaction",
        CORE,
        "self.decided = self.fetched if not self.waiting else taken[-1].end",
        "self.decided = self.fetched",
    ),
    _bug(
        "mirror-drops-the-first-record",
        "a reader that begins within a batch loses the record at its position",
        BATCHES,
        "if record.offset >= position]",
        "if record.offset > position]",
    ),
    _bug(
        "mirror-doubles-the-beginning",
        "a reader that begins within a batch copies the records before its position again",
        BATCHES,
        "if record.offset >= position]",
        "if record.offset >= 0]",
    ),
    _bug(
        "mirror-copies-aborted-records",
        "records of aborted transactions are copied",
        BATCHES,
        "hidden = header.is_control or (header.is_transactional and header.producer_id in aborting)",
        "hidden = header.is_control",
    ),
    _bug(
        "mirror-hides-a-producer-for-good",
        "after an abort the producer's later transactions are left out, too",
        BATCHES,
        "            aborting.discard(header.producer_id)\n",
        "            pass\n",
    ),
    _bug(
        "mirror-times-of-the-mirror",
        "a time that the source's broker stamped is replaced by the one that the producer gave",
        BATCHES,
        "        and not header.has_append_time\n",
        "",
    ),
    _bug(
        "mirror-positions-outside-the-transaction",
        "records are committed first, and the positions in a transaction of their own",
        SESSION,
        "                        await writer.write_links(\n"
        "                            [encode_point(self.plan.link, at, each) for at, each in points.items()]\n"
        "                        )\n"
        "                        await writer.commit(offsets)\n",
        "                        await writer.commit(offsets)\n"
        "                        await writer.commit_status(\n"
        "                            [encode_point(self.plan.link, at, each) for at, each in points.items()]\n"
        "                        )\n",
    ),
    _bug(
        "mirror-does-not-fence",
        "each mirror has a transactional id of its own, so the one before writes on",
        WRITING,
        '    return f"quorumlog-link-{link}"',
        '    return f"quorumlog-link-{link}-{time.time_ns()}"',
    ),
    _bug(
        "mirror-epoch-not-checked",
        "a mirror opens a link that was cut",
        LINK,
        "            if other is not None and other.epoch > own.epoch:\n                return other.epoch + 1\n",
        "            return own.epoch + 1\n",
    ),
    _bug(
        "mirror-joins-a-switch",
        "a mirror takes a link of which a switch is under way",
        LINK,
        "        case LinkStage.OPEN:\n            return own.epoch\n        case LinkStage.SWITCHING:\n            raise",
        "        case LinkStage.OPEN | LinkStage.SWITCHING:\n            return own.epoch\n        case LinkStage.SWITCHING:\n            raise",
    ),
    _bug(
        "mirror-goes-in-circles",
        "a link opens although its source is the target of the other direction",
        LINK,
        "    if other is not None and other.state is not LinkStage.CUT:",
        "    if other is not None and other.epoch < 0:",
    ),
    _bug(
        "mirror-writes-among-others",
        "a target's topic with records of its own is taken for the mirror's",
        OPENING,
        "            elif at_target[at].end:\n",
        "            elif at_target[at].end < 0:\n",
    ),
    _bug(
        "mirror-returns-over-a-tail",
        "what the switch left behind is not looked for on the way back",
        OPENING,
        "            if not lacks and not extra:\n",
        "            if not lacks:\n",
    ),
    _bug(
        "switch-leaves-the-tail",
        "a switch takes the link and cuts it without the records that no mirror had copied",
        SWITCH,
        "                    await session.run(until_caught_up=True)\n                    copied = session.is_caught_up\n",
        "                    copied = True\n",
    ),
    _bug(
        "switch-counts-offsets",
        "what was lost counts markers and aborted records",
        READING,
        "        count += sum(batch.count for batch in read.fetched.batches)\n",
        "        count += read.fetched.next_offset - position\n",
    ),
    _bug(
        "switch-leaves-the-link-open",
        "a switch ends with the link open, so that an old mirror goes on",
        SWITCH,
        "return await self._settle(LinkStage.CUT)",
        "return await self._settle(LinkStage.OPEN)",
    ),
    _bug(
        "switch-takes-silence-for-nothing",
        "a source that does not answer counts as one that lost nothing",
        SWITCH,
        "*lost.get(at, (None, None))",
        "*lost.get(at, (position, 0))",
    ),
    _bug(
        "rocketmq-mirror-copies-the-newest-again",
        "a restarted mirror begins with the message that was copied last",
        ORIGINS,
        "position = max(position, origin.offset + 1)",
        "position = max(position, origin.offset)",
    ),
    _bug(
        "rocketmq-mirror-sends-back",
        "messages that came from the target are copied to it again",
        QUEUES,
        "own = [message for message in pulled if origin_of(message.properties, self.plan.link) is None]",
        "own = list(pulled)",
    ),
    _bug(
        "rocketmq-mirror-does-not-look",
        "a mirror whose link was claimed by another one goes on",
        QUEUES,
        "if held is None or held.status.holder != self.link.claim.status.holder:",
        "if held is None:",
    ),
    _bug(
        "rocketmq-claims-of-old-mirrors",
        "a mirror's claim holds while a switch is under way",
        ORIGINS,
        "return claimed.epoch == held.epoch + 1 and claimed.holder == held.holder",
        "return True",
    ),
    _bug(
        "rocketmq-mirror-forgets-the-floor",
        "what a switch left behind, and was to stay there, is copied after the return",
        QUEUES_OPENED,
        "floor = self.other.ends.get(str(place), 0) if self.other else 0",
        "floor = 0",
    ),
)
