"""An etcd cluster that its owner started by hand is judged, with his faults, and with what it loses behind us."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster.authority import Authority
from jepsen_like.systems.archives.catalogue import ETCDS
from tests.jepsen_like.systems.etcd_target.by_hand import PASSWORD, USER, Owner, etcd_by_hand

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(ETCDS[0].missing()), reason=f"needs: {ETCDS[0].missing()}"),
]
OTHER = "another-owners"
KEYS_OF_A_RUN = 24


def delete(owner: Owner, key: str) -> None:
    owner.delete(key)


def change(owner: Owner, key: str) -> None:
    owner.put(key, "1000000")


def plant(owner: Owner, harm: Callable[[Owner, str], None]) -> threading.Thread:
    """Wait until all keys of a run are there, and do something to each: a write of the run may hide some of it."""

    def work() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if len(keys := owner.keys().keys() - {OTHER}) == KEYS_OF_A_RUN:
                for key in keys:
                    harm(owner, key)
                return
            time.sleep(0.1)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("harm", [None, delete, change])
def test_members_started_by_hand(tmp_path: Path, harm: Callable[[Owner, str], None] | None) -> None:
    with etcd_by_hand(tmp_path / "members") as (cluster, owner):
        owner.put(OTHER, "1")
        if harm is not None:
            plant(owner, harm)
        status, results = cluster.run("etcd", tmp_path / "runs", "--duration", "20", "--seed", "1")
        assert owner.keys() == {OTHER: "1"}
    assert status == (ExitStatus.VALID if harm is None else ExitStatus.VIOLATION)
    assert results["acked"] > 50
    assert {fault["kind"] for fault in results["faults"]} == {"kill", "pause"}


def test_a_user_logs_in_over_tls(tmp_path: Path, authority: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "client.properties"
    words = ["--command-config", str(config), "--nemesis", "pause", "--duration", "10", "--seed", "1"]
    with etcd_by_hand(tmp_path / "members", authority) as (cluster, owner):
        owner.demand_login()
        config.write_text(f"cacert={authority.certificate}\nuser={USER}:{PASSWORD}\n")
        status, results = cluster.run("etcd", tmp_path / "runs", *words)
        assert status == ExitStatus.VALID
        assert results["acked"] > 50
        target = ["run", "--quick", "--nemesis", "none", "--target", "etcd", "--bootstrap-servers", cluster.servers]
        for text, told in (
            (f"cacert={authority.certificate}\nuser={USER}:another's\n", "authentication failed"),
            (f"cacert={authority.certificate}\n", "user name is empty"),
            ("tls=true\n", "certificate verify failed"),
        ):
            config.write_text(text)
            assert execute([*target, "--command-config", str(config)]) == ExitStatus.ENVIRONMENT
            assert told in capsys.readouterr().err
