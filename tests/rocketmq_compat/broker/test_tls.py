"""TLS of RocketMQ's processes: name servers, brokers, HA links, raft groups and clients, in each mode of a port."""

from contextlib import AsyncExitStack

import pytest
import trio

from jepsen_like.cluster.authority import Authority
from raft.net.certificates import Certificates, TlsFiles, UnusableFiles
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.remoting.client import RemotingFailed, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.tls import tls_of
from tests.rocketmq_compat.broker.groups import broker_group
from tests.rocketmq_compat.broker.pairs import (
    SLAVE,
    WAIT_S,
    Events,
    ask,
    bodies,
    eventually,
    name_server,
    pull_until,
    running_broker,
    send,
)


def words(authority: Authority, *, mode: str = "enforcing") -> tuple[str, ...]:
    """Properties with which a process serves TLS, and dials with it and a certificate."""
    own = authority.files_of("server")
    return (
        f"tls.server.mode={mode}",
        *(f"tls.{side}.certPath={own.certificate}" for side in ("server", "client")),
        *(f"tls.{side}.keyPath={own.key}" for side in ("server", "client")),
        *(f"tls.{side}.trustCertPath={authority.certificate}" for side in ("server", "client")),
        "tls.enable=true",
    )


def alice(authority: Authority) -> Certificates:
    return Certificates(
        TlsFiles(certificate=str(authority.files_of("alice").keystore), authority=str(authority.certificate))
    )


async def test_a_pair_with_its_name_server_works_where_all_is_tls_with_certificates_and_refuses_all_else(
    authority: Authority,
) -> None:
    given, events = (*words(authority), "tls.server.need.client.auth=require"), Events()
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(name_server(*given))
        known = "namesrvAddr={}:{}".format(*names.address)
        master = await stack.enter_async_context(running_broker(known, "brokerRole=SYNC_MASTER", *given, events=events))
        slave = await stack.enter_async_context(running_broker(known, *SLAVE, *given))
        with trio.fail_after(WAIT_S):
            await slave.synced.wait()
        await eventually(lambda: bool(master.slaves))
        async with connected_client(master.address, tls=alice(authority)) as client:
            assert (await send(client, b"x" * 100_000)).code == ResponseCode.SUCCESS
            assert bodies(await pull_until(client, 1)) == [b"x" * 100_000]
        held = master.context.store.log
        assert slave.context.store.log.end_offset == held.end_offset
        for address in (master.address, names.address, master.ha_address):
            async with connected_client(address) as stranger:
                with pytest.raises(RemotingFailed, match=r"closed by the other side|broken"):
                    await ask(stranger, RequestCode.GET_BROKER_RUNTIME_INFO)
        reasons = [
            fields["reason"] for name in ("connection_closed", "ha_connection_lost") for fields in events.select(name)
        ]
        assert reasons.count("TLS: the other side speaks plain text, and this side TLS") == 2


async def test_by_default_a_port_with_a_certificate_takes_both(authority: Authority) -> None:
    async with (
        running_broker(*words(authority, mode="permissive")) as broker,
        connected_client(broker.address) as plain,
        connected_client(broker.address, tls=alice(authority)) as sealed,
    ):
        assert (await send(plain, b"1")).code == (await send(sealed, b"2")).code == ResponseCode.SUCCESS
        assert bodies(await pull_until(plain, 2)) == bodies(await pull_until(sealed, 2)) == [b"1", b"2"]


async def test_a_port_without_tls_names_the_reason_for_which_it_refuses_it(authority: Authority) -> None:
    events = Events()
    async with running_broker(*words(authority, mode="disabled"), events=events) as broker:
        async with connected_client(broker.address, tls=alice(authority)) as client:
            with pytest.raises(RemotingFailed, match=r"TLS: the other side|reset") as failed:
                await send(client, b"m")
            assert failed.value.definite
        reasons = [fields["reason"] for fields in events.select("connection_closed")]
        assert reasons == ["protocol error: the other side speaks TLS, and this side plain text"]


async def test_the_brokers_of_a_raft_group_reach_each_other_over_tls(authority: Authority) -> None:
    async with broker_group(*words(authority)) as group:
        master = await group.master()
        async with connected_client(master.running.address, tls=alice(authority)) as client:
            assert (await send(client, b"m")).code == ResponseCode.SUCCESS
        end = master.running.context.store.log.end_offset
        await eventually(lambda: all(each.running.context.store.log.end_offset == end for each in group.members))


def test_properties_that_contradict_each_other_and_files_that_cannot_be_used_are_refused(authority: Authority) -> None:
    with pytest.raises(InvalidProperty, match=r"tls\.server\.mode=enforcing needs tls\.server\.certPath"):
        tls_of(Properties.read(BROKER_PROPERTIES, ["tls.server.mode=enforcing"]))
    with pytest.raises(UnusableFiles, match="missing"):
        tls_of(Properties.read(BROKER_PROPERTIES, ["tls.server.certPath=/missing"]))
    nothing = tls_of(Properties.read(BROKER_PROPERTIES))
    assert (nothing.server, nothing.client) == (None, None)
