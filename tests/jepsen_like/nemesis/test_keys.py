"""A rotation replaces secret, certificates and authority of a cluster that serves, and ends with the earlier ones shut out."""

import json
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from jepsen_like.nemesis.nemesis import FaultRecord, Nemesis
from jepsen_like.nemesis.schedule import Fault, schedule
from jepsen_like.nemesis.table import KINDS, kinds_named
from jepsen_like.nemesis.targets import Target
from jepsen_like.record.evidence import of_faults
from jepsen_like.systems.secret_of import secret_in
from jepsen_like.systems.tls_of import certificates_in
from raft.client import Connection, Unreachable
from raft.errors import NotAdmitted
from tests.jepsen_like.raft_clusters import open_raft_cluster


async def connect_until_refused(*place: Any, **keys: Any) -> None:
    """Connects again and again: for a second the node may not have read the files that are there."""
    while True:
        (await Connection.connect(*place, **keys)).close()
        await trio.sleep(0.05)


@pytest.mark.cluster
async def test_a_rotation_shuts_out_who_has_the_earlier_keys_and_serves_all_others(tmp_path: Path) -> None:
    async with open_raft_cluster(tmp_path / "nodes", nodes=1, tls=True) as cluster:
        secret, tls = cluster.access.secret, cluster.access.tls
        assert secret is not None
        assert tls is not None
        earlier_secret = secret_in(secret)
        assert earlier_secret is not None
        known = earlier_secret.now()
        stale = Path(shutil.copytree(tls.authority.parent, tmp_path / "earlier"))
        earlier = attrs.evolve(tls, authority=tls.authority, keystore=stale / tls.keystore.name)
        nemesis = Nemesis(cluster, [Fault(1, "rotate", Target.ALL, 0.0, 0.1, 1)], tmp_path / "nemesis.jsonl")
        await nemesis.run()
        address = cluster.direct[1]
        for error, given, papers in ((NotAdmitted, known, tls), (Unreachable, secret_in(secret), earlier)):
            with trio.fail_after(20), pytest.raises(error):
                await connect_until_refused(*address, cluster.cluster_id, secret=given, tls=certificates_in(papers))
        assert await cluster.control.why_silent_at(address, within_s=5.0) is None
        assert cluster.unasked_ends == []
    (row,) = (json.loads(line) for line in (tmp_path / "nemesis.jsonl").read_text().splitlines())
    record = FaultRecord.of_row(row)
    assert record.observed["client>1"].startswith("carried")
    assert record.healed["dropped: secret"] == "one is accepted"
    assert of_faults([record], (), [1], ["rotate"]) == []
    for seen in (attrs.evolve(record, observed={}), attrs.evolve(record, healed={"1": record.healed["1"]})):
        assert of_faults([seen], (), [1], ["rotate"])


@pytest.mark.parametrize("seed", range(20))
def test_every_run_that_asks_for_it_rotates_all_while_other_faults_may_hold(seed: int) -> None:
    faults = schedule(seed, kinds_named(["kill", "partition", "rotate"]), 60)
    rotations = [fault for fault in faults if fault.kind == "rotate"]
    assert rotations
    assert {fault.target for fault in rotations} == {Target.ALL}
    within = {fault.id: fault for fault in faults}
    assert all(KINDS[within[fault.overlaps].kind].lane != "keys" for fault in rotations if fault.overlaps)
