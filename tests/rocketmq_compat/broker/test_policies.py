"""Brokers with users and policies: requests change them durably, they decide at once, and members need none."""

import json
import random
from typing import Any

import pytest

from log.memory_disk import MemoryDisk
from rocketmq_compat.acls import Credentials
from rocketmq_compat.broker.authorization import UnusableAclFile
from rocketmq_compat.broker.broker import BrokerPlan
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.remoting.client import RemotingClient, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from tests.rocketmq_compat.broker.pairs import ANY_PORT, DATA, Events, memory_disk, operator, running_broker, send

ROOT, ALICE = Credentials("root", "root's password"), Credentials("alice", "alice's password")
SETTINGS = (
    "authenticationEnabled=true",
    "authorizationEnabled=true",
    'initAuthenticationUser={"username":"root","password":"root\'s password"}',
)


async def change(client: RemotingClient, code: RequestCode, body: Any = None, **ext: str) -> tuple[int, str]:
    """Returns the code and the remark of the answer."""
    encoded = b"" if body is None else json.dumps(body).encode()
    answer = await client.ask(Command(code, ext=ext, body=encoded), timeout_s=20)
    return answer.code, answer.remark or ""


async def show(client: RemotingClient, code: RequestCode, **ext: str) -> Any:
    answer = await client.ask(Command(code, ext=ext), timeout_s=20)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return json.loads(bytes(answer.body)) if answer.body else None


def acl(*entries: tuple[str, str, str]) -> dict[str, Any]:
    found = [
        {"resource": resource, "actions": [action], "decision": decision} for resource, action, decision in entries
    ]
    return {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": found}]}


DONE = (ResponseCode.SUCCESS, "")
ALICE_INFO = {"username": "alice", "password": "alice's password", "userType": "Normal", "userStatus": "enable"}


async def test_users_and_policies_decide_at_once_and_after_a_restart() -> None:
    disk, events = memory_disk(), Events()
    async with running_broker(*SETTINGS, disk=disk, events=events) as broker:
        async with connected_client(broker.address) as stranger:
            answer = await send(stranger, b"m")
            assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "username cannot be null.")
        async with (
            connected_client(broker.address, sign=ROOT.sign) as root,
            connected_client(broker.address, sign=ALICE.sign) as alice,
        ):
            assert (await send(alice, b"m")).remark == "User:alice is not found."
            assert await change(root, RequestCode.AUTH_CREATE_USER, ALICE_INFO, username="alice") == DONE
            assert "no matched policies." in str((await send(alice, b"m")).remark)
            assert (
                await change(root, RequestCode.AUTH_CREATE_ACL, acl(("Topic:T", "Pub", "Allow")), subject="User:alice")
                == DONE
            )
            assert (await send(alice, b"m")).code == ResponseCode.SUCCESS
            assert (await send(alice, b"m", "U")).code == ResponseCode.NO_PERMISSION
            assert (
                await change(root, RequestCode.AUTH_UPDATE_ACL, acl(("Topic:T", "Pub", "Deny")), subject="User:alice")
                == DONE
            )
            assert "the decision is deny." in str((await send(alice, b"m")).remark)
            assert (
                await change(root, RequestCode.AUTH_UPDATE_ACL, acl(("Topic:*", "Pub", "Allow")), subject="User:alice")
                == DONE
            )
            gone = await change(
                root, RequestCode.AUTH_DELETE_ACL, subject="User:alice", policyType="Custom", resource="Topic:T"
            )
            assert gone == DONE
            refused, _ = await change(alice, RequestCode.AUTH_CREATE_USER, {"password": "p"}, username="eve")
            assert refused == ResponseCode.NO_PERMISSION
        killed = disk.after_kill(random.Random(1))
    async with (
        running_broker(*SETTINGS, disk=killed) as broker,
        connected_client(broker.address, sign=ROOT.sign) as root,
        connected_client(broker.address, sign=ALICE.sign) as alice,
    ):
        assert (await send(alice, b"m", "U")).code == ResponseCode.SUCCESS
        assert await show(root, RequestCode.AUTH_GET_USER, username="alice") == ALICE_INFO
        assert [each["username"] for each in await show(root, RequestCode.AUTH_LIST_USER)] == ["alice", "root"]
        assert await show(root, RequestCode.AUTH_LIST_USER, filter="o") != []
        assert (await show(root, RequestCode.AUTH_GET_ACL, subject="User:alice"))["subject"] == "User:alice"
        listed = await show(root, RequestCode.AUTH_LIST_ACL, subjectFilter="ali", resourceFilter="Topic")
        assert [each["resource"] for acl_ in listed for policy in acl_["policies"] for each in policy["entries"]] == [
            "Topic:*"
        ]
        assert await change(root, RequestCode.AUTH_DELETE_USER, username="alice") == DONE
        assert (await send(alice, b"m", "U")).remark == "User:alice is not found."
    denied = events.select("denied")
    assert denied[0] == {"user": "", "host": "127.0.0.1", "code": 310, "reason": "username cannot be null."}
    assert "password" not in repr(events.seen)


async def test_a_change_that_finds_no_room_has_not_happened() -> None:
    disk = memory_disk()
    async with running_broker(*SETTINGS, disk=disk) as broker, connected_client(broker.address, sign=ROOT.sign) as root:
        disk.capacity_bytes = 0
        code, remark = await change(root, RequestCode.AUTH_CREATE_USER, ALICE_INFO, username="alice")
        assert (code, remark.startswith("nothing was changed")) == (ResponseCode.SYSTEM_ERROR, True)
        assert await show(root, RequestCode.AUTH_GET_USER, username="alice") is None
        disk.capacity_bytes = None
        assert await change(root, RequestCode.AUTH_CREATE_USER, ALICE_INFO, username="alice") == DONE


async def test_only_a_super_user_makes_and_changes_super_users() -> None:
    async with running_broker(*SETTINGS) as broker, connected_client(broker.address, sign=ROOT.sign) as root:
        assert await change(root, RequestCode.AUTH_CREATE_USER, ALICE_INFO, username="alice") == DONE
        entry = ("Cluster:DefaultCluster", "All", "Allow")
        assert await change(root, RequestCode.AUTH_CREATE_ACL, acl(entry), subject="User:alice") == DONE
        async with connected_client(broker.address, sign=ALICE.sign) as alice:
            assert await change(alice, RequestCode.AUTH_CREATE_USER, {"password": "p"}, username="eve") == DONE
            for code, body, name in (
                (RequestCode.AUTH_CREATE_USER, {"password": "p", "userType": "Super"}, "mallory"),
                (RequestCode.AUTH_UPDATE_USER, {"userType": "Super"}, "alice"),
                (RequestCode.AUTH_UPDATE_USER, {"password": "p"}, "root"),
                (RequestCode.AUTH_DELETE_USER, None, "root"),
            ):
                refused, remark = await change(alice, code, body, username=name)
                assert (refused, "super user" in remark) == (ResponseCode.SYSTEM_ERROR, True)
            blank, _ = await change(alice, RequestCode.AUTH_CREATE_USER, {"password": "p"}, username=" ")
            assert blank == ResponseCode.INVALID_PARAMETER
        assert await change(root, RequestCode.AUTH_UPDATE_USER, {"userType": "Super"}, username="alice") == DONE


async def test_members_need_no_user_and_without_authorization_users_may_do_all() -> None:
    async with running_broker(SETTINGS[0], SETTINGS[2]) as broker:
        async with connected_client(broker.address, sign=ROOT.sign) as root:
            assert await change(root, RequestCode.AUTH_CREATE_USER, ALICE_INFO, username="alice") == DONE
        async with connected_client(broker.address, sign=ALICE.sign) as alice:
            assert (await send(alice, b"m")).code == ResponseCode.SUCCESS
        async with operator(broker.address) as member:
            assert [each["username"] for each in await show(member, RequestCode.AUTH_LIST_USER)] == ["alice", "root"]


async def test_a_broker_does_not_start_with_users_that_it_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    disk: MemoryDisk = memory_disk()
    async with running_broker(*SETTINGS, disk=disk):
        pass
    file = disk.open(f"{DATA}/auth.json", create=False)
    file.write_at(0, [b"x"])
    file.close()
    with pytest.raises(UnusableAclFile, match=r"auth\.json cannot be read"):
        async with running_broker(*SETTINGS, disk=disk):
            pass
    for given, reason in (
        (["authorizationEnabled=true"], "set authenticationEnabled=true"),
        (["aclEnable=true", "aclFile=f", "authenticationEnabled=true"], "set one of them"),
    ):
        with pytest.raises(InvalidProperty, match=reason):
            BrokerPlan(listen=ANY_PORT, data="d", properties=Properties.read(BROKER_PROPERTIES, given))
    with pytest.raises(InvalidProperty, match="initAuthenticationUser is"):
        async with running_broker(SETTINGS[0], "initAuthenticationUser=root"):
            pass
