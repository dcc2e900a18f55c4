"""Chooses how numpy sorts on this processor, which is a good part of the cost of a check.

AVX-512 stores what it has compared in compressed form, which AMD's Zen 4 does in microcode: there numpy sorts integers of 64 bits
five times faster with AVX2 (11 ns an element of a million, against 52; measured with numpy 2.4).
"""

from importlib import metadata
from pathlib import Path
from typing import Final

VARIABLE: Final = "NPY_DISABLE_CPU_FEATURES"
FEATURES: Final = "X86_V4 AVX512_ICL"
"""The names of AVX-512 in numpy since 2.4."""
ZEN_FAMILY: Final = "25"
"""Of Zen 3, which has no AVX-512, and Zen 4."""


def settings(cpuinfo: str | None = None, numpy_version: str | None = None) -> dict[str, str]:
    """Returns the environment in which a Python process that has not loaded numpy yet sorts fastest; empty: as it is."""
    try:
        text = Path("/proc/cpuinfo").read_text() if cpuinfo is None else cpuinfo
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    of_first = {name.strip(): value.strip() for name, _, value in lines}
    version = tuple(int(part) for part in (numpy_version or metadata.version("numpy")).split(".")[:2])
    slow = of_first.get("vendor_id") == "AuthenticAMD" and of_first.get("cpu family") == ZEN_FAMILY
    return {VARIABLE: FEATURES} if slow and "avx512f" in of_first.get("flags", "").split() and version >= (2, 4) else {}
