"""Workers sort with AVX2 exactly where AVX-512 is slower."""

import pytest

from jepsen_like.checker.engine import vector_sorts

ZEN4 = "processor: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: avx2 avx512f avx512dq\n\nprocessor: 1\n"


@pytest.mark.parametrize(
    ("cpuinfo", "numpy_version", "expected"),
    [
        (ZEN4, "2.4.6", {vector_sorts.VARIABLE: vector_sorts.FEATURES}),
        (ZEN4, "2.3.1", {}),
        (ZEN4.replace(" 25", " 26"), "2.4.6", {}),
        (ZEN4.replace("AuthenticAMD", "GenuineIntel"), "2.4.6", {}),
        (ZEN4.replace("avx512f avx512dq", ""), "2.4.6", {}),
        ("", "2.4.6", {}),
    ],
)
def test_the_slow_instructions_are_left_out(cpuinfo: str, numpy_version: str, expected: dict[str, str]) -> None:
    assert vector_sorts.settings(cpuinfo, numpy_version) == expected
