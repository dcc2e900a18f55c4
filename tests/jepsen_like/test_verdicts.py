"""Only a sound run is valid: every planted violation, trouble and doubt, each alone, through the code that judges."""

import pytest

from tests.examples import TIMES
from tests.jepsen_like.verdicts import first_wrong


def test_no_run_with_a_trouble_is_called_valid(capsys: pytest.CaptureFixture[str]) -> None:
    wrong, tried = first_wrong(both_ways=TIMES > 1)
    assert wrong is None
    assert tried > 70
