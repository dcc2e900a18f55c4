"""Generated rehearsals: the judge finds nothing wrong in sound ones, and its figures are those that the model counted."""

import tempfile
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.jepsen_like.checker.mirror.world import Rehearsal


@given(seed=st.integers(0, 2**32), steps=st.integers(20, 80), recreates=st.booleans())
@settings(max_examples=examples(24), deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_a_sound_rehearsal_is_valid_and_its_figures_are_those_of_the_model(
    seed: int, steps: int, recreates: bool
) -> None:
    run = Rehearsal.of(seed, partitions=2).play(steps, recreates=recreates)
    with tempfile.TemporaryDirectory() as directory:
        verdict = run.judge(Path(directory))
    assert (verdict.valid, [one.sentence for one in verdict.violations]) in [(True, []), (None, [])]
    assert verdict.mirror == run.counts
    assert verdict.mirror.lost == verdict.mirror.lag == verdict.lost_allowed
