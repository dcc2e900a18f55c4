"""Figures are kept, joined and judged as they say."""

from pathlib import Path

import attrs
import pytest

from jepsen_like.bench import answers, figures
from jepsen_like.bench.answers import BenchAnswer
from jepsen_like.bench.conversation import BATCHES, FULL, LARGE, ONE, LoadShape
from jepsen_like.bench.figures import Calm, Document, Failover, Memory, NotMeasured, RestartFigure, Run, Throughput

MACHINE = {"cpu": "a", "cores": "2", "memory": "1 GiB", "kernel": "Linux", "disk": "ext4", "python": "3"}


def row(
    system: str, load: LoadShape, requests_s: float, run: str = "r1", repeat: int = 0, p50_ms: float = 1.0
) -> Throughput:
    return Throughput(
        system=system,
        load=load.key,
        repeat=repeat,
        run=run,
        requests_s=requests_s,
        records_s=requests_s * load.batch,
        bytes_s=requests_s * load.batch * load.record_bytes,
        p50_ms=p50_ms,
        p99_ms=2 * p50_ms,
        leader_us=20.0,
    )


def document(*found: figures.Figure, run: str = "r1") -> Document:
    systems = {one.system: {"title": one.system, "promise": "kept", "version": "1"} for one in found}
    return Document(dict(MACHINE), [Run(run, "", 0.5)], systems, list(found))


def everything(run: str = "r1") -> Document:
    return document(
        row("quorumlog", FULL, 30_000, run),
        row("etcd", FULL, 10_000, run),
        Failover("quorumlog", "kill", run, [0.1, 0.2, 0.3]),
        Calm("quorumlog", run, 10.0, 0, 0, 1000.0, 9.0),
        RestartFigure("quorumlog", run, 2**30, [1.0], [2.0]),
        Memory("quorumlog", run, 10**7, [1, 2, 3], [4, 5, 6]),
        run=run,
    )


def only(of: Document, words: str) -> BenchAnswer:
    (found,) = [answer for answer in answers.answers(of) if words in answer.question]
    return found


@pytest.mark.parametrize(("theirs", "met"), [(10_000, True), (10_001, False)])
def test_an_aim_against_a_peer_is_met_exactly_from_its_factor_on(theirs: float, met: bool) -> None:
    answer = only(document(row("quorumlog", FULL, 30_000), row("etcd", FULL, theirs)), "durable appends/s")
    assert answer.met is met
    assert answer.aim == ">= 3 x"


def test_answers_are_medians_of_the_repeats() -> None:
    repeats = [row("quorumlog", BATCHES, rate, repeat=number) for number, rate in enumerate((1, 20_000, 90_000))]
    assert only(document(*repeats), "records/s").ours == "320,000"


@pytest.mark.parametrize(("p50_ms", "met"), [(0.45, True), (0.46, False)])
def test_one_connection_is_held_against_a_flush_and_two_round_trips(p50_ms: float, met: bool) -> None:
    limits = (row("disk", ONE, 1, p50_ms=0.2), row("echo", ONE, 1, p50_ms=0.05))
    assert only(document(row("quorumlog", ONE, 1, p50_ms=p50_ms), *limits), "p50 ms").met is met


def test_large_appends_are_counted_in_bytes() -> None:
    assert only(document(row("trimmed", LARGE, 1_000)), "MB/s").met is True
    assert only(document(row("trimmed", LARGE, 900)), "MB/s").met is False
    assert only(document(row("quorumlog", LARGE, 1_000)), "files that grow").ours == "524"


def test_a_slow_failover_misses_the_aim_of_the_worst_alone() -> None:
    of = document(Failover("quorumlog", "kill", "r1", [0.1, 0.2, 1.5]), Failover("etcd", "kill", "r1", [1.2]))
    assert only(of, "leader killed, median").met is True
    assert only(of, "leader killed, max").met is False
    assert "etcd 1.20 (of 1)" in only(of, "leader killed, median").compared


def test_one_election_is_one_too_many() -> None:
    assert only(document(Calm("quorumlog", "r1", 10.0, 1, 0, 1.0, 1.0)), "elections").met is False


def test_what_was_not_measured_is_no_answer_and_is_said() -> None:
    empty = document()
    assert answers.answers(empty) == []
    empty.not_measured.append(NotMeasured("throughput", "etcd", "r1", "`apt-get install etcd-server`"))
    assert answers.remarks(empty)[-1] == "Not measured, throughput of etcd: `apt-get install etcd-server`"


@pytest.mark.parametrize(("load_average", "warned"), [(2.0, False), (2.1, True)])
def test_figures_of_a_busy_machine_come_with_a_warning(load_average: float, warned: bool) -> None:
    of = attrs.evolve(everything(), runs=[Run("r1", "", load_average)])
    assert any("OTHER WORK" in remark for remark in answers.remarks(of)) is warned


def test_figures_come_back_from_their_file(tmp_path: Path) -> None:
    before = everything()
    before.not_measured.append(NotMeasured("throughput", "nats", "r1", "why"))
    figures.save(before, tmp_path / "figures.json")
    assert figures.load(tmp_path / "figures.json") == before
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def test_another_file_is_no_figures(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ValueError, match="does not hold figures"):
        figures.load(tmp_path / "other.json")


def test_what_is_measured_again_replaces_what_was_there_and_the_rest_stays_marked() -> None:
    newer = document(row("etcd", FULL, 11_000, "r2"), run="r2")
    joined = everything().replace(newer)
    assert [found.requests_s for found in joined.throughput("etcd", FULL.key)] == [11_000]
    assert [found.requests_s for found in joined.throughput("quorumlog", FULL.key)] == [30_000]
    assert any("Not from one run" in remark for remark in answers.remarks(joined))
    assert not any("Not from one run" in remark for remark in answers.remarks(everything()))


def test_a_run_of_which_nothing_is_left_is_forgotten() -> None:
    joined = everything("r1").replace(everything("r2"))
    assert [run.id for run in joined.runs] == ["r2"]


def test_a_reason_goes_when_its_figure_comes() -> None:
    before = document(run="r1")
    before.not_measured.append(NotMeasured("throughput", "etcd", "r1", "missing"))
    assert before.replace(document(row("etcd", FULL, 1, "r2"), run="r2")).not_measured == []


def test_figures_of_two_machines_are_never_joined() -> None:
    other = attrs.evolve(everything(), machine={**MACHINE, "cpu": "b"})
    with pytest.raises(ValueError, match="another machine"):
        everything().replace(other)
