"""RocketMQ's official C++ client, unmodified: it consumes its messages, in order on request, and failed ones again."""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from jepsen_like.bench.processes import until
from rocketmq_compat.acls import Credentials
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.topics import CreateTopicRequestHeader
from tests.rocketmq_compat.foreign.cluster import RAFT_GROUP, broker_group

WORKER = Path(__file__).with_name("worker.py")
PROCESS = ("-m", "rocketmq_compat.process")
ENDS_WITHIN_S = 60
COUNT = 20
LEVELS = "messageDelayLevel=1s 1s 1s 1s"

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        importlib.util.find_spec("rocketmq") is None,
        reason="the C++ client is not there: pip install rocketmq==0.4.4 (Linux on x86-64)",
    ),
]

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes, and kills them at the end of the test. The client writes its logs into its home."""
    started: list[subprocess.Popen[str]] = []

    def begin(*command: str, account: Credentials | None = None) -> subprocess.Popen[str]:
        environment = {**os.environ, "HOME": str(tmp_path)}
        if account is not None:
            environment |= {"ACCESS_KEY": account.access_key, "SECRET_KEY": account.secret_key}
        started.append(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", *command],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@attrs.frozen
class Brokers:
    """A name server that knows one broker."""

    names: str
    process: subprocess.Popen[str]
    flags: tuple[str, ...]
    """With which the broker was started."""


@pytest.fixture
def brokers(start: Start, tmp_path: Path) -> Brokers:
    """The retry topic is there before the consumers: they would look for it again after 30 s."""
    return start_brokers(start, tmp_path)


def start_brokers(start: Start, tmp_path: Path, *properties: str, account: Credentials | None = None) -> Brokers:
    names = str(await_event(start(*PROCESS, "nameserver", "--listen", "127.0.0.1:0"), "listening")["address"])
    flags: tuple[str, ...] = (*PROCESS, "broker", "--listen", "127.0.0.1:0", "--ha-listen", "127.0.0.1:0")
    flags += ("--data", str(tmp_path / "data"), "--set", f"namesrvAddr={names}", "--set", LEVELS)
    flags += tuple(part for each in properties for part in ("--set", each))
    process = start(*flags)
    address = await_event(process, "listening")["address"]
    await_event(process, "serving")
    host, _, port = address.rpartition(":")
    trio.run(make_retry_topic, (host, int(port)), account)
    return Brokers(names, process, flags)


async def make_retry_topic(address: tuple[str, int], account: Credentials | None = None) -> None:
    header = CreateTopicRequestHeader(topic="%RETRY%g", read_queue_nums=1, write_queue_nums=1, perm=6)
    async with connected_client(address, sign=account.sign if account else None) as client:
        answer = await client.ask(Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=header.ext()), timeout_s=10)
    assert answer.code == ResponseCode.SUCCESS


def await_event(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == event:
            return found
    raise AssertionError(f"the process ended without {event}")


def lines(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Returns the lines that a worker printed; it must have come to its end."""
    output = process.communicate(timeout=ENDS_WITHIN_S)[0]
    found = [json.loads(line) for line in output.splitlines()]
    assert found, "the worker printed nothing"
    assert found.pop() == {"done": True}
    return found


def send_all(start: Start, names: str, topic: str) -> list[dict[str, Any]]:
    found = lines(start(str(WORKER), "send", names, topic, str(COUNT)))
    assert all(each["status"] == 0 for each in found)
    return found


def consume(
    start: Start, names: str, way: str, tags: str, count: int, *, topic: str = "T", group: str = "g"
) -> list[dict[str, Any]]:
    return lines(start(str(WORKER), "consume", names, topic, group, way, tags, str(count)))


def test_what_was_sent_is_consumed_and_what_failed_comes_again(start: Start, brokers: Brokers) -> None:
    bodies = {each["body"] for each in send_all(start, brokers.names, "T")}
    found = consume(start, brokers.names, "concurrent", "*", len(bodies))
    # The client sends back what fails together with all that it had pulled at once, which comes again as another try.
    times = Counter((each["body"], each["tries"]) for each in found)
    assert {body for body, _ in times} == bodies
    assert set(times.values()) == {1}
    assert [each["tries"] for each in found if each["body"] == "fail-once"] == [0, 1]


def test_what_was_sent_in_order_is_consumed_in_order(start: Start, brokers: Brokers) -> None:
    send_all(start, brokers.names, "T")
    found = consume(start, brokers.names, "orderly", "B", COUNT)
    assert [each["body"] for each in found] == [f"orderly-{number}" for number in range(COUNT)]
    assert len({each["queue"] for each in found}) == 1


def test_what_was_sent_to_a_broker_that_was_killed_is_consumed_from_the_next_one(
    start: Start, brokers: Brokers
) -> None:
    send_all(start, brokers.names, "T")
    brokers.process.kill()
    brokers.process.wait()
    await_event(start(*brokers.flags), "serving")
    found = consume(start, brokers.names, "concurrent", "B", COUNT)
    assert {each["body"] for each in found} == {f"orderly-{number}" for number in range(COUNT)}


ACCOUNTS = """
accounts:
  - accessKey: producer
    secretKey: produces
    topicPerms: [T=PUB|SUB]
    defaultGroupPerm: SUB
  - accessKey: operator
    secretKey: operates
    admin: true
"""


def test_an_account_sends_and_consumes_what_it_may_and_others_nothing(start: Start, tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    operator, producer = Credentials("operator", "operates"), Credentials("producer", "produces")
    accounts = ("aclEnable=true", f"aclFile={tmp_path / 'plain_acl.yml'}")
    brokers = start_brokers(start, tmp_path, *accounts, account=operator)
    names = brokers.names

    def send_one(topic: str, account: Credentials | None) -> dict[str, Any]:
        (outcome,) = lines(start(str(WORKER), "send-one", names, topic, "one", account=account))
        return outcome

    assert send_one("T", producer)["status"] == 0
    consumer = start(str(WORKER), "consume", names, "T", "g", "concurrent", "*", "1", account=producer)
    assert [each["body"] for each in lines(consumer)] == ["one"]
    for topic, account, reason in (
        ("T", Credentials("producer", "guesses!"), "Check signature failed for accessKey=producer"),
        ("U", producer, "No default permission for topic:U"),
        ("T", None, "No acl config for "),  # without credentials it sends an empty key
    ):
        assert send_one(topic, account)["error"], "the client keeps the reason for its log"
        denied = await_event(brokers.process, "denied")
        while denied["code"] not in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2):
            denied = await_event(brokers.process, "denied")  # its heartbeats are refused, too
        assert denied["reason"] == reason


@pytest.mark.campaign
def test_a_raft_group_whose_master_is_killed_has_what_was_sent_and_takes_more(start: Start, tmp_path: Path) -> None:
    with broker_group(tmp_path / "group") as cluster:
        send_all(start, cluster.names, "before")
        old = cluster.kill_master(RAFT_GROUP)
        until(
            lambda: cluster.query_registered().get((RAFT_GROUP, 0), old) != old,
            "another master",
            within_s=ENDS_WITHIN_S,
            every_s=0.05,
        )
        send_all(start, cluster.names, "after")
        for topic in ("before", "after"):
            found = consume(start, cluster.names, "orderly", "B", COUNT, topic=topic, group=topic)
            assert [each["body"] for each in found] == [f"orderly-{number}" for number in range(COUNT)]
