"""The HTTP API of a Kafka cluster that is up, asked as its page shows it, and the doors for clients elsewhere."""

import contextlib
import json
import random
import re
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import click
import pytest
from confluent_kafka.admin import AdminClient

from jepsen_like.cli import COMMANDS, cli
from jepsen_like.cluster.location import ClientDoors
from jepsen_like.cluster.ports import LOOPBACK, CannotListen, listen_at
from jepsen_like.port.wires import Network
from jepsen_like.run.desk_http import ROUTES
from jepsen_like.run.fault_desk import ask
from jepsen_like.run.up import TOKEN, doors_of, token_for
from tests.house.checks import ROOT
from tests.jepsen_like.run.ups import Up, up

PORT = "18080"
"""Of the page."""
SECRET = "a-token-that-no-one-knows"


def http(url: str, method: str, path: str, fields: Any = None, token: str = "") -> tuple[int, dict[str, Any]]:
    body = None if fields is None else json.dumps(fields).encode()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    asked = urllib.request.Request(url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def free_ports(count: int) -> int:
    """The first of so many free ports in a row, below those that the kernel hands out."""
    for first in random.sample(range(11_000, 32_000, count), 1000):
        with contextlib.suppress(CannotListen), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(listen_at(LOOPBACK, port, backlog=1))
            return first
    raise AssertionError("no ports are free")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    data = tmp_path_factory.mktemp("up") / "data"
    bind = f"{LOOPBACK}:{free_ports(3)}"
    with up(data, "--system", "kafka", "--bind", bind, "--advertise", "localhost", environment={TOKEN: ""}) as cluster:
        yield cluster


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_the_requests_of_the_page_are_answered(kafka: Up) -> None:
    page = (ROOT / "docs" / "http.md").read_text()
    lines = re.findall(r"^curl .*$", page, re.MULTILINE)
    assert len(lines) == 5
    status, faults, leaders, healed, checked = (_curl(line, kafka) for line in lines)
    assert {each["state"] for each in status["nodes"]} == {"running"}
    assert faults["lines"][0].startswith("kill of n")
    assert leaders["leaders"]["controller"]["node"] in (1, 2, 3)
    assert healed["lines"][0].startswith("healed: kill of n")
    assert (checked["valid"], checked["broken"]) == (True, [])
    assert status["clients"] == dict([kafka.line.split("=")])
    assert set(re.findall(r"^\| `([A-Z]+ /\w+)` \|", page, re.MULTILINE)) == {" ".join(route) for route in ROUTES}


def _curl(line: str, kafka: Up) -> dict[str, Any]:
    words = [word.replace(f"http://{LOOPBACK}:{PORT}", kafka.url) for word in shlex.split(line)]
    done = subprocess.run([*words, "-sS", "--fail-with-body"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_clients_are_given_the_advertised_addresses_of_the_doors(kafka: Up) -> None:
    servers = kafka.line.removeprefix("bootstrap.servers=").split(",")
    first = int(servers[0].rpartition(":")[2])
    assert servers == [f"localhost:{first + each}" for each in range(3)]
    metadata = AdminClient({"bootstrap.servers": servers[1], "log_level": 0}).list_topics(timeout=30)
    assert {f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()} == set(servers)


@pytest.mark.cluster
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "words"),
    [
        ("POST", "/faults", {"kind": "kil"}, 400, "no fault 'kil'"),
        ("POST", "/faults", {"node": 1, "kind": "kill"}, 400, "there is no node here"),
        ("POST", "/faults", {"kind": "kill", "nodes": "12"}, 400, "a list of numbers is needed"),
        ("POST", "/faults", {}, 400, "kind is missing"),
        ("POST", "/faults", {"kind": "power"}, 409, "start it with quorumlog up --faults power"),
        ("POST", "/faults", {"kind": "kill", "scope": "elsewhere"}, 409, "'elsewhere' has no leader"),
        ("POST", "/answers", {"api": "Dance", "error": "NONE"}, 400, "Dance"),
        ("POST", "/acknowledged", {"records": [{}]}, 400, "records[0]: topic is a text"),
        ("POST", "/check", {"within_s": "soon"}, 400, "within_s is a number"),
        ("POST", "/check", {"within_s": 1e9}, 400, "within_s is a number"),
    ],
)
def test_a_bad_request_gets_its_reason(kafka: Up, method: str, path: str, fields: Any, status: int, words: str) -> None:
    found = http(kafka.url, method, path, fields)
    assert (found[0], words in found[1]["error"]) == (status, True), found
    assert http(kafka.url, "GET", "/status")[1]["faults"] == []


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_a_check_names_what_was_acknowledged_and_is_not_there(kafka: Up) -> None:
    record = {"topic": "orders", "partition": 0, "offset": 0, "value": "tea"}
    assert http(kafka.url, "POST", "/acknowledged", {"records": [record]})[1]["noted"] == 1
    found = http(kafka.url, "POST", "/check", {})[1]
    assert (found["valid"], found["broken"]) == (False, ["orders-0 is gone, with 1 acknowledged records"])
    assert ask(kafka.data, {"do": "check"})["valid"] is False, "both doors lead to one desk"
    assert http(kafka.url, "DELETE", "/acknowledged")[0] == 200
    assert http(kafka.url, "POST", "/check", {})[1]["valid"] is True


# -------------------------------------------------------------------- without a cluster


@pytest.mark.parametrize(
    ("host", "token", "found"),
    [("127.0.0.1", None, None), ("localhost", "", None), ("127.0.0.1", SECRET, SECRET), ("0.0.0.0", SECRET, SECRET)],
)
def test_on_loopback_a_token_is_a_choice(host: str, token: str | None, found: str | None) -> None:
    assert token_for(host, token) == found


@pytest.mark.parametrize(
    ("host", "token"),
    [("0.0.0.0", None), ("10.0.0.1", ""), ("here.example", None), ("0.0.0.0", "short"), ("0.0.0.0", "ü" * 20)],
)
def test_beyond_loopback_the_api_needs_a_token(host: str, token: str | None) -> None:
    with pytest.raises(click.UsageError, match="token"):
        token_for(host, token)


def test_doors_are_counted_from_the_first_port() -> None:
    doors = doors_of(("0.0.0.0", 19092), ("localhost", 9092), Network.PROXIES, 3)
    assert [doors.listen(node) for node in (1, 3)] == [("0.0.0.0", 19092), ("0.0.0.0", 19094)]
    assert [doors.advertise(node, 19091 + node) for node in (1, 3)] == [("localhost", 9092), ("localhost", 9094)]
    assert doors.from_here(19092) == (LOOPBACK, 19092)
    assert ClientDoors("10.0.0.1", advertised_host="far").advertise(2, 4711) == ("far", 4711)


@pytest.mark.parametrize(
    ("bind", "advertise", "network", "words"),
    [
        (("0.0.0.0", 0), ("", 0), Network.PROXIES, "name an address that leads here with --advertise"),
        ((LOOPBACK, 65534), ("", 0), Network.PROXIES, "3 ports from 65534 on are too many"),
        ((LOOPBACK, 0), ("far", 0), Network.NAMESPACES, "need --network proxies"),
    ],
)
def test_doors_that_no_client_could_use_are_refused(
    bind: tuple[str, int], advertise: tuple[str, int], network: Network, words: str
) -> None:
    with pytest.raises(click.UsageError, match=words):
        doors_of(bind, advertise, network, 3)


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml"])
def test_the_container_starts_the_command_that_there_is(name: str) -> None:
    text = (ROOT / name).read_text()
    arguments = re.findall(r'^\s*(?:CMD|command:) (\["up".*\])$', text, re.MULTILINE)
    assert len(arguments) == 1
    command, *words = json.loads(arguments[0])
    context = COMMANDS[command].load().make_context(command, words, parent=click.Context(cli))
    given = context.params
    members = given["system"].members(given["nodes"])
    doors = doors_of(given["bind"], given["advertise"], Network(given["network"]), len(members))
    at = sorted(doors.listen(member.id)[1] for member in members)
    assert doors.host == "0.0.0.0", "a mapped port leads to an address of the container, not to its loopback"
    assert f"{at[0]}-{at[-1]}" in text, "the brokers' ports are opened"
    assert re.search(rf"{given['http_port']}(/status|:{given['http_port']})", text)
    assert TOKEN in text


def test_the_image_copies_files_that_there_are() -> None:
    text = (ROOT / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for name in line.split()]
    admitted = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert copied == admitted
    assert [name for name in copied if not (ROOT / name).exists()] == []
    packaged = re.search(
        r"^\[tool.hatch.build.targets.wheel\]\npackages = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert packaged is not None
    assert set(json.loads(packaged[1])) <= set(copied)
