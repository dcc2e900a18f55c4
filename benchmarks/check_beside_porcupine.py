"""Compares the checker with Porcupine on histories that both can hold.

    python benchmarks/check_beside_porcupine.py [--out FILE]

Needs Go; builds `benchmarks/porcupine` in a temporary directory. Each history is generated (see `check_scale`), valid, and
given to both: as columns in memory to our kernels in a process of their own, as operations in memory to Porcupine. Timed is the
check alone; memory is the greatest resident set of the process (VmHWM). Porcupine may take `SECONDS` and `MEMORY_GIB`.
Status 0 if we find every history valid, and Porcupine none invalid.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from check_scale import STEP_NS, rows_of

from jepsen_like.checker.log.explain import check_logs
from jepsen_like.checker.register.explain import check_registers
from jepsen_like.checker.rows.columns import NEEDED, Columns
from jepsen_like.checker.verdict import Model
from jepsen_like.history.ops import COLUMNS, Action, Outcome

SECONDS = 60
MEMORY_GIB = 12
CASES = (
    (Model.REGISTER, 1_000_000, 10_000, 4),
    (Model.REGISTER, 100_000, 1_000, 20),
    (Model.REGISTER, 10_000, 1, 4),
    (Model.REGISTER, 100_000, 1, 4),
    (Model.REGISTER, 1_000_000, 1, 4),
    (Model.LOG, 10_000, 1, 4),
    (Model.LOG, 100_000, 1, 4),
    (Model.LOG, 1_000_000, 1, 4),
)
"""Model, operations, objects, and how many operations of each object are under way at once."""
TYPES = {"q": np.int64, "i": np.int32, "h": np.int16, "b": np.int8}
FIELDS = ("object", "process", "f", "a", "b", "offset", "t_inv", "t_ret")
FOREIGN = {Action.READ: 1, Action.WRITE: 2, Action.CAS: 3, Action.APPEND: 4}
PROGRAM = Path(__file__).parent / "porcupine"


def history(model: Model, operations: int, objects: int, clients: int) -> dict[str, Any]:
    """Returns the columns of a valid history in which every outcome is known."""
    index = np.arange(operations)
    rows = rows_of(model, index, objects, None, clients)
    reach = clients * objects * STEP_NS // 2
    unknown = rows["type"] != Outcome.OK
    rows["t_ret"] = np.where(unknown, index * STEP_NS + reach + (index * 6007) % reach, rows["t_ret"])
    rows["offset"] = np.where(unknown, index // objects // 2, rows["offset"])
    rows["type"][:] = Outcome.OK
    return {name: rows[name].astype(TYPES[code]) for name, code in COLUMNS}


def peak_mib() -> int:
    """Returns the greatest resident memory of this process so far."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def check_in_here(model: Model, operations: int, objects: int, clients: int) -> None:
    """Check with our kernels, and print what was measured as JSON."""
    columns = history(model, operations, objects, clients)
    rows = Columns(*(columns[name] for name in NEEDED))
    before = peak_mib()
    began = time.process_time(), time.monotonic()
    found = check_registers(rows) if model is Model.REGISTER else check_logs([rows])
    took = time.process_time() - began[0], time.monotonic() - began[1]
    line = {"valid": not found.counts and not found.undecided, "check_s": round(took[1], 3), "cpu_s": round(took[0], 3)}
    sys.stdout.write(json.dumps({**line, "input_mib": before, "peak_mib": peak_mib()}) + "\n")


def by_us(*case: Any) -> dict[str, Any]:
    """Our kernels in a process of their own."""
    words = [sys.executable, __file__, "--case", json.dumps(case)]
    found: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return found


def by_porcupine(program: Path, scratch: Path, model: Model, *size: int) -> dict[str, Any]:
    """Porcupine, under its limits; what it could not do is named in `result`."""
    columns = history(model, *size)
    columns["f"] = np.vectorize(FOREIGN.__getitem__, otypes=[np.int64])(columns["f"])
    file = scratch / "history.bin"
    np.stack([columns[name].astype("<i8") for name in FIELDS], axis=1).tofile(file)

    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_GIB << 30, MEMORY_GIB << 30))

    words = [str(program), model.value, str(file), str(SECONDS)]
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=limit_memory, check=False)
    if done.returncode:
        out_of_memory = "out of memory" in done.stderr or "cannot allocate" in done.stderr
        return {"result": "out of memory" if out_of_memory else done.stderr[-300:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "check_s": round(found["check_s"], 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the checker with Porcupine.")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case is not None:
        model, *size = json.loads(arguments.case)
        check_in_here(Model(model), *size)
        return 0
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="porcupine-") as directory:
        scratch = Path(directory)
        program = scratch / "beside"
        environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
        subprocess.run(["go", "build", "-o", str(program), "."], cwd=PROGRAM, env=environment, check=True)
        for model, operations, objects, clients in CASES:
            ours = by_us(model.value, operations, objects, clients)
            theirs = by_porcupine(program, scratch, model, operations, objects, clients)
            times = round(theirs["check_s"] / ours["check_s"], 1) if theirs["result"] == "Ok" else None
            case = {"model": model.value, "operations": operations, "objects": objects, "clients": clients}
            lines.append({**case, "ours": ours, "porcupine": theirs, "times_faster": times})
            sys.stdout.write(json.dumps(lines[-1]) + "\n")
            sys.stdout.flush()
    if arguments.out is not None:
        about: dict[str, Any] = {
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "load": round(os.getloadavg()[0], 1),
        }
        about |= {"porcupine_may": {"seconds": SECONDS, "memory_gib": MEMORY_GIB}}
        arguments.out.write_text(json.dumps({**about, "cases": lines}, indent=1) + "\n")
    right = all(line["ours"]["valid"] and line["porcupine"]["result"] != "Illegal" for line in lines)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
