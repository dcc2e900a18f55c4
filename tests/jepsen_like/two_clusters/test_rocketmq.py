"""Two topics in two clusters of real RocketMQ brokers: a lost cluster costs a failed attempt, and no message."""

import json
import time
from collections.abc import Callable, Mapping

import pytest

from jepsen_like.testing.rocketmq.sync import LocalRocketMq, RocketMqProducer
from raft.two_topics import Alternate, Hedge
from rocketmq_compat.topic_pair import Send, TwoTopicsProducer

ATTEMPT_S = 1.0


def sender(client: RocketMqProducer) -> Send:
    """Sends to one cluster. This producer takes no properties of ours, so that they travel as the key."""

    def send(body: bytes, keys: bytes | None, properties: Mapping[str, str]) -> None:
        client.send("orders", body, keys=json.dumps(dict(properties)), within_s=0.0)

    return send


@pytest.mark.cluster
@pytest.mark.parametrize("policy", [Alternate(attempt_s=ATTEMPT_S, avoid_s=60.0), Hedge(attempt_s=ATTEMPT_S)])
def test_every_message_is_acknowledged_while_one_of_two_rocketmq_clusters_is_gone(policy: Alternate | Hedge) -> None:
    with (
        LocalRocketMq.open(slaves=0) as one,
        LocalRocketMq.open(slaves=0, seed=1) as other,
        one.producer() as first,
        other.producer() as second,
    ):
        producer = TwoTopicsProducer([sender(first), sender(second)], policy, writer="shop")
        done: dict[int, int | None] = {}
        took_s: dict[int, float] = {}

        def note(begun: float) -> Callable[[int, int | None], None]:
            def on_done(number: int, side: int | None) -> None:
                done[number] = side
                took_s[number] = time.monotonic() - begun

            return on_done

        for number in range(20):
            if number == 10:
                assert producer.flush(10.0) == 0
                one.kill(*one.brokers)
            producer.send(b"body", on_done=note(time.monotonic()))
        assert producer.flush(10.0) == 0
        producer.close()
        assert set(done) == set(range(1, 21))
        assert {done[number] for number in range(11, 21)} == {1}
        assert max(took_s[number] for number in range(11, 21)) < ATTEMPT_S + 2.0
        one.start(*one.brokers)
