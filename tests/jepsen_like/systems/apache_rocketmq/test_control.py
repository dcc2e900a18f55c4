"""The harness takes what a broker of Apache RocketMQ tells as it is."""

from jepsen_like.port.port import Access
from jepsen_like.systems.apache_rocketmq.control import ApacheRocketControl
from jepsen_like.systems.apache_rocketmq.mode import ApacheRocketMode
from jepsen_like.systems.apache_rocketmq.processes import LEDGER
from jepsen_like.systems.rocketmq.clients import Pulled
from jepsen_like.systems.rocketmq.control import RocketControl
from jepsen_like.systems.rocketmq.mode import RocketMode

NODES = {node: ("10.0.0.1", 100 + node) for node in (1, 2, 3)}


def test_a_queue_that_lacks_messages_is_dumped_and_one_of_ours_is_refused() -> None:
    apache = ApacheRocketMode.of([], "dledger").on(3)
    assert isinstance(apache, ApacheRocketMode)
    nothing = Pulled(5, ())
    assert ApacheRocketControl(apache, Access("run-1", further={LEDGER: NODES}), NODES).shows(5, nothing)
    assert not RocketControl(RocketMode.of([], "raft").on(3), NODES).shows(5, nothing)
