"""The catalogue has every claim, and each is decided by an experiment or is none, with a reason."""

from jepsen_like.claims.catalogue import Claim, catalogue
from jepsen_like.claims.judgement import Part, Worth
from jepsen_like.claims.registry import EXPERIMENTS, experiments_of


def test_the_catalogue_has_ninety_two_claims_and_two_questions() -> None:
    assert list(catalogue()) == [*(f"C{number:02d}" for number in range(1, 93)), "Q002", "Q004"]


def test_every_claim_has_a_source_a_sentence_and_an_expected_verdict() -> None:
    for claim in catalogue().values():
        assert claim.articles
        assert set(claim.articles) <= {"000", "001", "002", "003", "004"}
        assert claim.says.endswith("." if not claim.is_question else "?")
        assert claim.expected
        assert not {Worth.NONE, Worth.NO_EXPERIMENT} & set(claim.expected)


def test_what_is_no_experiment_has_a_reason_a_source_and_no_experiment() -> None:
    for claim in catalogue().values():
        assert bool(claim.not_an_experiment) == bool(claim.source)
        assert not (claim.not_an_experiment and experiments_of([claim.id]))


def test_experiments_speak_of_claims_that_there_are() -> None:
    for experiment in EXPERIMENTS:
        assert set(experiment.claims) <= set(catalogue()), experiment.name


def test_experiments_have_different_names() -> None:
    names = [experiment.name for experiment in EXPERIMENTS]
    assert len(names) == len(set(names))


def test_what_is_expected_of_a_claim_can_lead_to_its_expected_verdict() -> None:
    needed = {Worth.HOLDS_IF: Part.EXCEPTION, Worth.OUTDATED: Part.TODAY}
    for claim in catalogue().values():
        parts = {one.part for each in experiments_of([claim.id]) for one in each.expects if claim.id in one.claims}
        accepted = {*claim.expected, *([claim.differs.verdict] if claim.differs else [])}
        if parts and Worth.HOLDS not in accepted and Worth.FALSE not in accepted:
            assert any(needed.get(verdict) in parts for verdict in accepted), claim.id


def test_exceptions_state_their_condition() -> None:
    for experiment in EXPERIMENTS:
        for one in experiment.expects:
            assert bool(one.condition) <= (one.part is Part.EXCEPTION)


def test_another_verdict_is_accepted_with_a_written_reason_alone() -> None:
    row = {"articles": ["000"], "says": "It holds.", "expected": ["holds"], "outcome": "It does."}
    assert not Claim.of("C01", row).accepts(Worth.FALSE)
    explained = {**row, "differs": {"verdict": "false", "because": "It was measured."}}
    assert Claim.of("C01", explained).accepts(Worth.FALSE)
    assert not Claim.of("C01", explained).accepts(Worth.OUTDATED)
