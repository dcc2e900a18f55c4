"""A cluster with a secret on real sockets: members and clients that know it are served, strangers learn nothing."""

import logging
import secrets
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import click
import msgpack
import pytest
import trio
from click.testing import CliRunner

from raft import client_codec as wire
from raft.admission import REFUSAL, WIRE
from raft.client import Client, Connection
from raft.codec import encode_message
from raft.errors import NotAdmitted, NotAllowed, ProtocolError
from raft.group import RaftGroup
from raft.membership import Promote
from raft.messages import VoteReply
from raft.model import Term
from raft.net import watched_files
from raft.net.framing import HEADER, FrameDecoder, encode_frame, header_check
from raft.process import secret_for
from raft.secret_command import secret as secret_command
from raft.secret_file import (
    SecretFile,
    UnusableSecret,
    add_secret,
    credentials_of,
    drop_secret,
    make_secret,
    read_secret,
    turn_secret,
)
from raft.server import _REQUESTS
from raft.settings import ConnectionSettings, NodeSettings
from raft.trust import ADMIN, INCARNATION_BYTES, READER, ROLES, WRITER, Credentials, Secret, Untrusted
from tests.raft.shell.nodes import CLUSTER_ID, FAST, LocalCluster, local_cluster, until

SECRET = Secret("a secret that no stranger can guess at all")
ANOTHER = Secret("another secret, of some other cluster here")


@asynccontextmanager
async def trusting_node(directory: Path, *, connections_max: int = 1024) -> AsyncIterator[LocalCluster]:
    settings = NodeSettings(
        raft=FAST, connections=ConnectionSettings(connections_max=connections_max, greeting_timeout_s=0.2)
    )
    async with local_cluster(directory, 1, settings, secret=SECRET) as cluster:
        await cluster.leader()
        yield cluster


async def all_of(stream: trio.SocketStream) -> bytes:
    """All bytes until the connection ends."""
    received = b""
    try:
        async for chunk in stream:
            received += chunk
    except trio.BrokenResourceError:
        pass  # the node closed before it had read all
    return received


async def answer_to(cluster: LocalCluster, *pieces: bytes) -> bytes:
    """The answer of a node to a stranger's bytes, until it closes the connection."""
    async with await trio.open_tcp_stream(*cluster.members[1]) as stream:
        for piece in pieces:
            await stream.send_all(piece)
        return await all_of(stream)


async def drip(stream: trio.SocketStream) -> None:
    """Send a byte now and then, until the connection breaks."""
    while True:
        await stream.send_all(b"\0")
        await trio.sleep(0.02)


class Liar:
    """Knows the secret, and sends what it likes afterwards."""

    def __init__(self, stream: trio.SocketStream, name: str, secret: Secret = SECRET) -> None:
        self.stream = stream
        self._dialer = credentials_of(secret, CLUSTER_ID, name).dial(WIRE, "1")
        self._decoder = FrameDecoder(4096)

    async def prove(self) -> None:
        message = self._dialer.opening
        while message:
            await self.stream.send_all(wire.encode_trust(message))
            ((message_type, body, _),) = self._decoder.feed(await self.stream.receive_some())
            message = self._dialer.step(wire.decode_trust_reply(message_type, body)).reply


# -------------------------------------------------------------------- members and clients


async def test_a_cluster_with_a_secret_elects_and_serves_clients_that_know_it(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 3, secret=SECRET) as cluster:
        await cluster.leader()
        addresses = [f"{host}:{port}" for host, port in cluster.members.values()]
        async with Client(addresses, CLUSTER_ID, secret=SECRET) as client:
            appended = await client.append([b"one", b"two"])
            found = await client.read(appended.base_offset)
        assert [record for batch in found.batches for record in batch.records()] == [b"one", b"two"]


@pytest.mark.parametrize("secret", [None, ANOTHER])
async def test_a_client_without_the_secret_is_refused_at_once(tmp_path: Path, secret: Secret | None) -> None:
    async with trusting_node(tmp_path) as cluster:
        host, port = cluster.members[1]
        async with Client([f"{host}:{port}"], CLUSTER_ID, deadline_s=60.0, secret=secret) as client:
            with pytest.raises(NotAdmitted):
                await client.append([b"a stranger's"])
        assert (await (await cluster.leader()).tail()).committed_end == 0


async def test_a_client_does_not_talk_to_a_node_that_cannot_prove_itself(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        with pytest.raises(ProtocolError):
            await Connection.connect(*cluster.members[1], CLUSTER_ID, secret=SECRET)


async def test_a_member_with_another_secret_takes_no_part(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 3, secret=SECRET, start=(1, 2)) as cluster:
        cluster.secret = ANOTHER
        stranger = await cluster.start(3)
        await until(lambda: len(cluster.notices("link_refused")) >= 4)
        assert {each["reason"] for each in cluster.notices("link_refused")} >= {
            f"protocol error: node 1 refused the link: {NotAdmitted()}"
        }
        assert cluster.notices("link_up") == [] or all(each["peer"] != 3 for each in cluster.notices("link_up"))
        assert stranger.status()["term"] == 0


# -------------------------------------------------------------------- strangers

STRANGERS = [
    pytest.param(wire.encode_hello(wire.Hello(CLUSTER_ID, wire.CLIENT, 0)), id="greets as a client"),
    pytest.param(wire.encode_hello(wire.Hello("another", wire.CLIENT, 0)), id="names another cluster"),
    pytest.param(
        wire.encode_hello(wire.Hello(CLUSTER_ID, wire.PEER, 2)) + b"".join(encode_message(VoteReply(Term(9), True))),
        id="greets as a peer and sends a term",
    ),
    pytest.param(encode_frame(wire.TRUST, b""), id="proves nothing"),
    pytest.param(encode_frame(wire.TRUST, b"\x03" + bytes(40)), id="claims before it opens"),
    pytest.param(encode_frame(wire.TRUST, bytes(3000)), id="proves too much"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
    pytest.param(HEADER.pack(5000, 1, 7, header_check(5000, 1, 7), 0), id="a long frame"),
]


@pytest.mark.parametrize("opening", STRANGERS)
async def test_a_stranger_gets_one_same_short_refusal(tmp_path: Path, opening: bytes) -> None:
    async with trusting_node(tmp_path) as cluster:
        assert await answer_to(cluster, opening) == REFUSAL
        assert (await cluster.leader()).status()["term"] == 1


async def test_a_wrong_claim_gets_the_same_refusal(tmp_path: Path) -> None:
    async with trusting_node(tmp_path) as cluster:
        dialer = credentials_of(ANOTHER, CLUSTER_ID, "2").dial(WIRE, "1")
        async with await trio.open_tcp_stream(*cluster.members[1]) as stream:
            await stream.send_all(wire.encode_trust(dialer.opening))
            ((message_type, body, _),) = FrameDecoder(4096).feed(await stream.receive_some())
            claim = dialer.step(wire.decode_trust_reply(message_type, body)).reply
            await stream.send_all(wire.encode_trust(claim))
            assert await all_of(stream) == REFUSAL


async def test_a_recorded_conversation_lets_no_one_in(tmp_path: Path) -> None:
    """All that a member once sent, sent again to the same node."""
    recorded = b""
    async with trusting_node(tmp_path) as cluster:
        async with await trio.open_tcp_stream(*cluster.members[1]) as stream:
            dialer = credentials_of(SECRET, CLUSTER_ID, ADMIN).dial(WIRE, "1")
            message = dialer.opening
            decoder = FrameDecoder(4096)
            while message:
                recorded += wire.encode_trust(message)
                await stream.send_all(wire.encode_trust(message))
                ((message_type, body, _),) = decoder.feed(await stream.receive_some())
                message = dialer.step(wire.decode_trust_reply(message_type, body)).reply
        answer = await answer_to(cluster, recorded, wire.encode_hello(wire.Hello(CLUSTER_ID, wire.CLIENT, 0)))
        assert answer.endswith(REFUSAL)
        assert wire.encode_hello_reply(wire.HelloReply(1, NodeSettings().frame_bytes_max)) not in answer


async def test_a_slow_stranger_is_closed_at_the_deadline(tmp_path: Path) -> None:
    async with trusting_node(tmp_path) as cluster, await trio.open_tcp_stream(*cluster.members[1]) as stream:
        with pytest.raises(trio.BrokenResourceError):
            await drip(stream)
        assert cluster.notices("connection_closed")[0]["role"] == "stranger"


async def test_a_flood_of_strangers_keeps_no_member_out(tmp_path: Path) -> None:
    async with trusting_node(tmp_path, connections_max=16) as cluster:
        host, port = cluster.members[1]
        flood = [socket.create_connection((host, port)) for _ in range(64)]
        try:
            async with Connection.open(host, port, CLUSTER_ID, secret=SECRET) as client:
                assert (await client.status())["node"] == 1
            await until(lambda: len(cluster.notices("connection_closed")) >= 60)
        finally:
            for each in flood:
                each.close()


# -------------------------------------------------------------------- members that lie


@pytest.mark.parametrize(
    ("proven", "hello"),
    [
        pytest.param("2", wire.Hello(CLUSTER_ID, wire.PEER, 3), id="another node"),
        pytest.param(ADMIN, wire.Hello(CLUSTER_ID, wire.PEER, 2), id="a client as a node"),
        pytest.param("2", wire.Hello(CLUSTER_ID, wire.CLIENT, 0), id="a node as a client"),
    ],
)
async def test_who_greets_as_another_than_it_has_proven_is_closed(
    tmp_path: Path, proven: str, hello: wire.Hello
) -> None:
    async with (
        local_cluster(tmp_path, 3, start=(1,), secret=SECRET) as cluster,
        await trio.open_tcp_stream(*cluster.members[1]) as stream,
    ):
        await Liar(stream, proven).prove()
        await stream.send_all(wire.encode_hello(hello))
        await all_of(stream)
        (closed,) = cluster.notices("connection_closed")
        assert f"it has proven to be '{proven}'" in closed["reason"]


# -------------------------------------------------------------------- roles of clients

READS = {"read", "tail", "query", "status"}
WRITES = {"append", "apply"}
CHANGES = {"change_members", "transfer_leadership"}
MAY = {READER: READS, WRITER: READS | WRITES, ADMIN: READS | WRITES | CHANGES}


def ask(client: Client, request: str) -> Awaitable[object]:
    match request:
        case "append":
            return client.append([b"one"])
        case "read":
            return client.read(0)
        case "apply":
            return client.apply(msgpack.packb(["w", "a", "1"]))
        case "query":
            return client.query(msgpack.packb(["r", "a"]))
        case "change_members":
            return client.change_members(Promote(1))
        case "transfer_leadership":
            return client.transfer_leadership(1)
        case _:
            pass
    bare: Callable[[], Awaitable[object]] = getattr(client, request)
    return bare()


async def test_each_role_may_do_what_the_table_says_and_nothing_else(tmp_path: Path) -> None:
    async with trusting_node(tmp_path) as cluster:
        host, port = cluster.members[1]
        for role, allowed in MAY.items():
            async with Client([f"{host}:{port}"], CLUSTER_ID, secret=SECRET.of_role(role)) as client:
                for request in sorted(READS | WRITES | CHANGES):
                    if request in allowed:
                        await ask(client, request)
                        continue
                    needed = WRITER if request in WRITES else ADMIN
                    with pytest.raises(NotAllowed, match=f"secret FILE --role {needed} --of CLUSTER-SECRET") as refused:
                        await ask(client, request)
                    assert refused.value.definite
                    assert f"the secret of a {role} does not suffice" in str(refused.value)
        async with Client([f"{host}:{port}"], CLUSTER_ID, secret=SECRET) as client:
            assert (await client.tail()).committed_end == 2, "those of the writer and of the admin"


def test_every_request_of_the_wire_stands_in_the_table() -> None:
    assert {wire.APPEND, *_REQUESTS} == {wire.APPEND, wire.READ, wire.TAIL, wire.APPLY, wire.STATUS, wire.CHANGE}


@pytest.mark.parametrize("role", ROLES)
async def test_who_has_the_secret_of_a_role_is_no_member(tmp_path: Path, role: str) -> None:
    async with local_cluster(tmp_path, 3, start=(1,), secret=SECRET) as cluster:
        async with await trio.open_tcp_stream(*cluster.members[1]) as stream:
            liar = Credentials(
                secret=SECRET.of_role(role),
                cluster_id=CLUSTER_ID,
                name="2",
                incarnation=bytes(INCARNATION_BYTES),
                draw=secrets.token_bytes,
            )
            dialer = liar.dial(WIRE, "1")
            await stream.send_all(wire.encode_trust(dialer.opening))
            ((message_type, body, _),) = FrameDecoder(4096).feed(await stream.receive_some())
            claim = dialer.step(wire.decode_trust_reply(message_type, body)).reply
            await stream.send_all(wire.encode_trust(claim))
            assert await all_of(stream) == REFUSAL
        async with await trio.open_tcp_stream(*cluster.members[1]) as stream:
            await Liar(stream, role, SECRET.of_role(role)).prove()
            await stream.send_all(wire.encode_hello(wire.Hello(CLUSTER_ID, wire.PEER, 2)))
            await all_of(stream)
        assert f"it has proven to be '{role}'" in cluster.notices("connection_closed")[-1]["reason"]


async def test_a_node_does_not_start_with_the_secret_of_a_role(tmp_path: Path) -> None:
    with pytest.raises(UnusableSecret, match="the secret of a reader; members start with that of their cluster"):
        async with RaftGroup.open(
            node_id=1, members={1: ("127.0.0.1", 0)}, directory=str(tmp_path / "n"), secret=SECRET.of_role(READER)
        ):
            pass
    made = make_secret(tmp_path / "writer", SECRET.of_role(WRITER))
    assert read_secret(tmp_path / "writer").now() == made.now() == SECRET.of_role(WRITER)
    with pytest.raises(click.UsageError, match="--secret-file: it is the secret of a writer"):
        secret_for(("127.0.0.1", 0), secret_file=str(tmp_path / "writer"), insecure=False)


def test_the_command_makes_the_secret_of_a_role_from_that_of_the_cluster(tmp_path: Path) -> None:
    cluster, reader, more = tmp_path / "cluster", tmp_path / "reader", tmp_path / "more"
    made = make_secret(cluster)
    done = CliRunner().invoke(secret_command, [str(reader), "--role", "reader", "--of", str(cluster)])
    assert (done.exit_code, f"--secret-file {reader}" in done.stdout) == (0, True)
    assert read_secret(reader).now() == made.now().of_role(READER)
    for wrong, reason in (
        (["--role", "reader"], "--role and --of go together"),
        (["--role", "reader", "--of", str(cluster), "--add"], "without a step"),
        (["--role", "reader", "--of", str(reader)], "it is the secret of a reader"),
        (["--role", "reader", "--of", str(tmp_path / "none")], "cannot read the secret"),
    ):
        refused = CliRunner().invoke(secret_command, [str(more), *wrong])
        assert (refused.exit_code, reason in refused.stderr, more.exists()) == (2, True, False)


# -------------------------------------------------------------------- files and addresses


def test_a_made_secret_is_for_its_owner_alone_and_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = make_secret(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secret(path).now() == made.now()
    with pytest.raises(FileExistsError):
        make_secret(path)


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        pytest.param(b"x" * 64, 0o640, "run: chmod 600", id="others read it"),
        pytest.param(b"short\n", 0o600, "too short", id="it can be guessed"),
        pytest.param(b"\xff" * 64, 0o600, "no text", id="no text"),
        pytest.param(None, 0, "cannot read the secret", id="no file"),
    ],
)
def test_an_unusable_secret_is_refused_with_its_correction(
    tmp_path: Path, content: bytes | None, mode: int, reason: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(UnusableSecret, match=reason):
        read_secret(path)


def test_the_command_makes_a_secret_once_and_names_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = CliRunner().invoke(secret_command, [str(path)])
    assert (made.exit_code, f"--secret-file {path}" in made.stdout) == (0, True)
    before = read_secret(path).now()
    again = CliRunner().invoke(secret_command, [str(path)])
    assert (again.exit_code, "is there already" in again.stderr) == (2, True)
    assert read_secret(path).now() == before


def test_the_command_replaces_a_secret_in_three_steps_and_refuses_them_out_of_order(tmp_path: Path) -> None:
    path = tmp_path / "secret"

    def step(*flags: str) -> tuple[int, Secret]:
        return CliRunner().invoke(secret_command, [*flags, str(path)]).exit_code, read_secret(path).now()

    _, earlier = step()
    assert [step("--turn"), step("--drop")] == [(2, earlier)] * 2
    added, both = step("--add")
    assert (added, both.text, both.other is None) == (0, earlier.text, False)
    assert both.other not in (None, earlier.text)
    assert step("--add") == (2, both)
    assert step("--turn") == (0, Secret(both.other or "", earlier.text))
    assert step("--drop") == (0, Secret(both.other or ""))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["secret"]


@attrs.define
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_changed_secret_is_used_from_the_next_connection_and_a_damaged_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "secret", Clock()
    make_secret(path)
    held = SecretFile(path, clock)
    one, two = credentials_of(held, "c", "1"), credentials_of(held, "c", "2")
    begun = two.accept(WIRE, 0.0)
    for act in (add_secret, turn_secret, drop_secret):
        before = held.now()
        act(path)
        assert held.now() == before  # not looked at more than once a second
        clock.now += 1.0
        assert held.now() == read_secret(path).now() != before
        dialer, acceptor = one.dial(WIRE, "2"), two.accept(WIRE, 0.0)
        claim = dialer.step(acceptor.step(0.0, dialer.opening).reply).reply
        assert acceptor.step(0.0, claim).admitted is not None
    late = one.dial(WIRE, "2")
    with pytest.raises(Untrusted, match="a wrong proof"):  # `begun` knows the first secret alone
        begun.step(0.0, late.step(begun.step(0.0, late.opening).reply).reply)
    with caplog.at_level(logging.WARNING):
        known = held.now()
        for content in ("damaged", "\n".join("abc"), f"{known.text}\n{known.text[:31]}"):
            path.write_text(content)
            clock.now += 1.0
            assert held.now() == held.now() == known
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3 + ["ERROR"] * 3


async def test_the_secret_of_a_group_is_replaced_while_it_serves_and_the_earlier_one_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_files, "LOOK_EVERY_S", 0.0)
    path = tmp_path / "secret"
    earlier = make_secret(path).now()
    async with local_cluster(tmp_path, 3, secret=read_secret(path)) as cluster:
        addresses = [f"{host}:{port}" for host, port in cluster.members.values()]
        async with Client(addresses, CLUSTER_ID, secret=read_secret(path)) as client:
            for number, act in enumerate((add_secret, turn_secret, drop_secret)):
                act(path)
                restarted = (await cluster.leader()).status()["node"]
                assert isinstance(restarted, int)
                await cluster.stop(restarted)
                await cluster.start(restarted)
                assert (await client.append([b"%d" % number])).base_offset == number
            for host, port in cluster.members.values():
                with pytest.raises(NotAdmitted):
                    await Connection.connect(host, port, CLUSTER_ID, secret=earlier)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
async def test_a_node_without_a_secret_does_not_listen_beyond_loopback(tmp_path: Path, host: str) -> None:
    with pytest.raises(ValueError, match="can be reached from outside"):
        async with RaftGroup.open(node_id=1, members={1: (host, 4001)}, directory=str(tmp_path / "n")):
            pass
    assert not (tmp_path / "n").exists()
