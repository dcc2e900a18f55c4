"""Deliberate bugs of the rules for full disks: nodes that end, leaders that are unseated, promises that lack room."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

ORACLES = ["full-disks"]

FULL_DISK_BUGS: Sequence[Mutant] = (
    plant(
        "full-disk-unseats-at-each-refusal",
        "a leader without room hands over at each request that it refuses",
        "raft.full_disk",
        "        if now < self._hand_over_from:\n            return False\n",
        "",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-never-hands-over",
        "a leader without room stays, though others have some",
        "raft.full_disk",
        "        self._hand_over_from = now + HAND_OVER_EVERY_S\n        return True\n",
        "        return False\n",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-moves-terms-without-room",
        "a node without room takes each new term, until none can be written",
        "raft.full_disk",
        "        except NoSpace:\n            return False\n",
        "        except NoSpace:\n            return True\n",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-reports-at-each-refusal",
        "a notice is given for each request",
        "raft.full_disk",
        "            self._notices_from = now + NOTICE_EVERY_S\n",
        "",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-forgets-who-waits",
        "a command that waited for room has no answer",
        "raft.applier",
        "                if waiting:\n                    self._waiting[entry.index] = list(waiting)\n                raise\n",
        "                raise\n",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-applies-twice",
        "the commands of an entry before the one without room are applied again",
        "raft.applier",
        "self._done_of_next, None):",
        "0, None):",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-asks-without-pause",
        "a machine without room is asked in each round",
        "raft.applier",
        "            self._no_room_until = now + NO_ROOM_S\n",
        "            self._no_room_until = now\n",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-ends-a-machine",
        "a machine without room ends the group",
        "raft.applier",
        "        except (InvalidRequest, NoSpace):\n            raise\n",
        "        except InvalidRequest:\n            raise\n",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-acknowledges-what-kafka-refused",
        "a leader without room answers as if the batch were in its log",
        "kafka_compat.broker.full_disk",
        "            return AnswerProduce(event.token, code, NO_OFFSET, log.start_offset)\n",
        "            return AnswerProduce(event.token, KafkaErrorCode.NONE, log.end_offset, log.start_offset)\n",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-is-silent-to-acks-0",
        "a producer that wants no answer learns nothing of what was refused",
        "kafka_compat.broker.full_disk",
        "            if event.acks == 0:\n                return CloseConnection(event.token, code)\n",
        "",
        oracles=ORACLES,
        judge="full-disks",
    ),
    plant(
        "full-disk-ends-rocketmqs-slaves",
        "a slave appends without a look at the room",
        "rocketmq_compat.broker.replicated_log",
        "        try:\n            self._store.reserve_bytes(size)\n",
        "        try:\n            assert size >= 0\n",
        oracles=ORACLES,
        judge="full-disks",
    ),
)
