"""Q004: the Kafka that equals a raft group of five brokers with five copies and 50 queues, and where no setting makes them equal."""

from collections.abc import Sequence
from typing import Final

from jepsen_like.claims.experiment import ClaimDesk, Experiment
from jepsen_like.claims.experiments.dledger_side import MEMBERS, PAUSED_S, QUEUES, SLOW_S, HeldSide, Side, hold
from jepsen_like.claims.experiments.kafka_wrong_answers import Tried, rejections, try_candidates
from jepsen_like.claims.judgement import Part, at_least, exactly, expect

DLEDGER: Final = Side(
    name="DLedger, five brokers, 50 queues",
    system="rocketmq",
    replication="raft",
    settings=("client=own", f"queues={QUEUES}"),
)
KAFKA: Final = Side(
    name="Kafka, five brokers, 50 partitions",
    system="kafka",
    replication="isr",
    settings=(
        "acks=all",
        f"min.insync.replicas={MEMBERS // 2 + 1}",
        f"default.replication.factor={MEMBERS}",
        f"offsets.topic.replication.factor={MEMBERS}",
        "unclean.leader.election.enable=false",
        f"partitions={QUEUES}",
    ),
)
PHASES: Final = {
    "calm": "nothing is broken",
    "slow": f"one member is {round(2 * SLOW_S * 1e3)} ms away from the others",
    "silent": "one follower stands still, its connections stay",
    "leader dead": "the broker that leads most is killed",
    "two dead": "a second one is killed",
    "three dead": "a third one is killed",
}


def ask(desk: ClaimDesk) -> None:
    """Hold both to the same load and faults, then the wrong answers to those that reject them."""
    dledger = hold(desk, DLEDGER)
    measure(desk, dledger, "dledger")
    kafka = hold(desk, KAFKA)
    measure(desk, kafka, "kafka")
    slow = kafka.p50_ms("slow") / dledger.p50_ms("slow")
    desk.measure("kafka_by_dledger_with_a_slow_member", round(slow, 2), "x", kafka.kept.directory)
    silent = kafka.longest_s("silent") / dledger.longest_s("silent")
    desk.measure("kafka_by_dledger_with_a_silent_follower", round(silent, 2), "x", kafka.kept.directory)
    tried = try_candidates(desk)
    for one in tried:
        word = one.candidate.name.replace(" ", "_")
        desk.measure(f"{word}_rejected", int(one.is_rejected), "", one.kept.directory)
    write_page(desk, dledger, kafka, tried)


def measure(desk: ClaimDesk, held: HeldSide, word: str) -> None:
    """Note the figures of one side."""
    place = held.kept.directory
    desk.measure(f"{word}_lost", held.kept.lost, "records", place)
    desk.measure(f"{word}_p99_ms_calm", held.p99_ms("calm"), "ms", place)
    desk.measure(f"{word}_p50_ms_with_a_slow_member", held.p50_ms("slow"), "ms", place)
    desk.measure(f"{word}_p99_ms_with_a_slow_member", held.p99_ms("slow"), "ms", place)
    desk.measure(f"{word}_stall_s_with_a_silent_follower", held.longest_s("silent"), "s", place)
    desk.measure(f"{word}_queues_paused_by_a_silent_follower", held.count_paused("silent"), "", place)
    desk.measure(f"{word}_writes_with_one_dead", held.writes_at_end("leader dead"), "", place)
    desk.measure(f"{word}_writes_with_two_dead", held.writes_at_end("two dead"), "", place)
    desk.measure(f"{word}_writes_with_three_dead", held.writes_at_end("three dead"), "", place)
    desk.measure(f"{word}_queues_readable_with_three_dead", held.seen.readable, "", place)
    desk.measure(f"{word}_brokers_that_lead", held.seen.leaders, "", place)
    desk.measure(f"{word}_queues_that_lost_their_leader", held.seen.led_by_dead, "", place)


# -------------------------------------------------------------------- the page

Row = tuple[str, str, str, str]


def yes(count: int) -> str:
    """Returns in a word if something happened at all."""
    return "yes" if count else "no"


def equal_rows(dledger: HeldSide, kafka: HeldSide) -> list[Row]:
    """Returns the things that are alike, or are meant to be: the question, both answers, and the judgement."""
    rows = []
    for words, phase in (("one", "leader dead"), ("two", "two dead"), ("three", "three dead")):
        one, two = dledger.writes_at_end(phase), kafka.writes_at_end(phase)
        rows.append((f"Are messages taken with {words} of five dead?", yes(one), yes(two), _same(bool(one), bool(two))))
    lost = dledger.kept.lost, kafka.kept.lost
    rows.append(("Acknowledged messages lost in all of this", f"{lost[0]:,}", f"{lost[1]:,}", _same(*lost)))
    return rows


def _same(one: object, other: object) -> str:
    return "equal" if one == other else "DIFFERENT"


def different_rows(dledger: HeldSide, kafka: HeldSide) -> list[Row]:
    """Returns the differences that no setting removes, each with its reason."""
    return [
        (
            f"50 % and 99 % of messages are acknowledged within, with one member {round(2 * SLOW_S * 1e3)} ms away",
            f"{dledger.p50_ms('slow'):,.0f} / {dledger.p99_ms('slow'):,.0f} ms",
            f"{kafka.p50_ms('slow'):,.0f} / {kafka.p99_ms('slow'):,.0f} ms",
            "acks=all waits for all that are in sync now, a raft group for the fastest three; a slow member is in sync for "
            "replica.lag.time.max.ms at least",
        ),
        (
            "Longest time without an acknowledgement, one follower silent",
            f"{dledger.longest_s('silent'):.2f} s ({dledger.count_paused('silent')} of {QUEUES} queues paused)",
            f"{kafka.longest_s('silent'):.2f} s ({kafka.count_paused('silent')} of {QUEUES} partitions paused)",
            "Kafka waits until the silent one has left the set in sync: a session of the broker, or the time of lag",
        ),
        (
            "Queues that can be read with three of five dead",
            f"{dledger.seen.readable} of {dledger.seen.asked}",
            f"{kafka.seen.readable} of {kafka.seen.asked}",
            "a Kafka leader that lives serves reads without a majority; what a raft group's members serve is what they had",
        ),
        (
            "Brokers that lead queues",
            str(dledger.seen.leaders),
            str(kafka.seen.leaders),
            "one raft group has one leader for all its queues; five groups on the same machines would spread them",
        ),
        (
            "Queues that need another leader when the first dies",
            f"{dledger.seen.led_by_dead} of {QUEUES}",
            f"{kafka.seen.led_by_dead} of {QUEUES}",
            "a partition is Kafka's unit, a broker's whole log RocketMQ's",
        ),
    ]


def answers(dledger: HeldSide, kafka: HeldSide, tried: Sequence[Tried]) -> list[str]:
    """The answer in sentences."""
    right, *wrong = tried
    rejected = sum(one.is_rejected for one in wrong)
    is_equal = all(row[3] == "equal" for row in equal_rows(dledger, kafka)) and not right.is_rejected
    return [
        f"Kafka with {MEMBERS} brokers, {QUEUES} partitions, {MEMBERS} copies of each, acks=all, min.insync.replicas={MEMBERS // 2 + 1} and no "
        f"unclean elections {'equals' if is_equal else 'DID NOT EQUAL'} a DLedger group of {MEMBERS} in what it survives: it takes messages with "
        f"two of five dead, stops with three, and lost {kafka.kept.lost:,} of {kafka.kept.acked:,} acknowledged messages "
        f"(DLedger: {dledger.kept.lost:,} of {dledger.kept.acked:,}).",
        "It does not equal it in whom it waits for: one slow member slows every message of Kafka and none of DLedger, and a silent one stops "
        "Kafka until it has left the set in sync. No setting changes that, since acks=all means all in sync.",
        f"{rejected} of {len(wrong)} other settings were rejected by a run: each stopped where a majority lived, or lost what it had acknowledged.",
    ]


def write_page(desk: ClaimDesk, dledger: HeldSide, kafka: HeldSide, tried: Sequence[Tried]) -> None:
    """Fill the page of the question."""
    for sentence in answers(dledger, kafka, tried):
        desk.answer(sentence)
    one, other = dledger.kept.directory, kafka.kept.directory
    desk.table(
        "The two that were compared",
        ("", "DLedger", "Kafka"),
        [
            (
                "brokers and copies",
                "5, each a voter of one raft group",
                "5, each a replica of every partition and a controller",
            ),
            ("queues", f"{QUEUES} queues of one topic", f"{QUEUES} partitions of one topic, leaders spread"),
            (
                "a message is acknowledged",
                "once 3 of 5 have it",
                "acks=all: once all in sync have it, which are 3 at least (min.insync.replicas=3)",
            ),
            (
                "a leader is elected",
                "by a majority of the group",
                "by the controller, among those in sync (unclean.leader.election.enable=false)",
            ),
            ("see the runs", ("history, faults and verdict", one), ("history, faults and verdict", other)),
        ],
        "DLedger is RocketMQ's raft mode. Both ran on the same machine, one after the other, with 200 messages a second from 50 clients.",
    )
    desk.table(
        "Where they are equal",
        ("question", "DLedger", "Kafka", "verdict"),
        [(row[0], (row[1], one), (row[2], other), row[3]) for row in equal_rows(dledger, kafka)],
        "Looked at in the second half of each phase, when elections are over.",
    )
    desk.table(
        "Where no setting makes them equal",
        ("measured", "DLedger", "Kafka", "because"),
        [(row[0], (row[1], one), (row[2], other), row[3]) for row in different_rows(dledger, kafka)],
        f"A queue has paused if it acknowledged nothing for {PAUSED_S:g} s. Sessions last 2 s here and 9 s by Kafka's default, elections of "
        "the raft group take below a second here and 6 to 10 s by DLedger's defaults.",
    )
    desk.table(
        "Wrong answers, and what rejects them",
        ("Kafka with", "messages taken, one dead", "two dead", "acknowledged and lost", "verdict"),
        [
            (
                ", ".join(one.candidate.words),
                f"{one.with_one_dead:,}",
                f"{one.with_two_dead:,}",
                (f"{one.lost:,}", one.kept.directory),
                "; ".join(rejections(one.with_one_dead, one.with_two_dead, one.lost)) or "not rejected",
            )
            for one in tried
        ],
        "All at once in one cluster: the leader is cut off and killed, then a second broker; later all in sync die and two stale ones are back first.",
    )


EXPERIMENTS: Final = (
    Experiment(
        name="equal-to-dledger",
        story="A raft group of five brokers and the Kafka that answers it are held to the same load and faults; so are four wrong answers.",
        seconds=150,
        expects=(
            expect("Q004", "dledger_lost", exactly(0)),
            expect("Q004", "kafka_lost", exactly(0)),
            *(
                expect("Q004", f"{side}_writes_with_{word}_dead", at_least(1))
                for side in ("dledger", "kafka")
                for word in ("one", "two")
            ),
            *(expect("Q004", f"{side}_writes_with_three_dead", exactly(0)) for side in ("dledger", "kafka")),
            expect("Q004", "the_answer_rejected", exactly(0)),
            *(
                expect("Q004", f"{word}_rejected", exactly(1))
                for word in ("min_5", "min_2_of_3_copies", "acks_1", "unclean_elections")
            ),
            expect("Q004", "kafka_p50_ms_with_a_slow_member", at_least(1.5e3 * SLOW_S)),
            expect("Q004", "kafka_by_dledger_with_a_slow_member", at_least(1.3)),
            expect("Q004", "kafka_stall_s_with_a_silent_follower", at_least(0.5)),
            expect("Q004", "kafka_by_dledger_with_a_silent_follower", at_least(2)),
            expect("Q004", "dledger_brokers_that_lead", exactly(1)),
            expect("Q004", "kafka_brokers_that_lead", exactly(MEMBERS)),
            expect("Q004", "kafka_p99_ms_calm", at_least(0), Part.PRICE),
            expect("Q004", "dledger_p99_ms_calm", at_least(0), Part.PRICE),
        ),
        conduct=ask,
        question="Which Kafka equals a DLedger group with five brokers, five copies and 50 queues?",
    ),
)
