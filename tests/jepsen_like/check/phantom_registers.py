"""A history of twenty registers, of which one returned a value that no client wrote."""

from pathlib import Path

import attrs

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import Action, Op, Outcome

PHANTOM = 7
"""The register that did."""


def write_registers(run: Path) -> None:
    """Write it as the history of a run directory."""
    with HistoryWriter(run / "history.parquet") as history:
        for register in range(20):
            write = Op(f=Action.WRITE, type=Outcome.OK, t_inv=1, t_ret=2, a=1, object=register, process=register)
            history.record(write)
            seen = 5 if register == PHANTOM else 1
            history.record(attrs.evolve(write, f=Action.READ, a=seen, t_inv=3, t_ret=4))
