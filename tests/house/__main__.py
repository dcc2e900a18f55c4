"""`python -m tests.house [NAME ...]`: run the house checks, all or the named ones, and say what each found."""

import gc
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.house.checks import CHECKS


def main(names: list[str]) -> int:
    """Run the checks, one on each core, and print a line and the complaints of each as it ends; 0 when there are none, 2 for an unknown name."""
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        sys.stderr.write(f"no check named {', '.join(unknown)}; there are {', '.join(CHECKS)}\n")
        return 2
    gc.disable()  # the trees of all sources last until the end, and are walked again and again
    failed = 0
    slowest_first = [name for name in reversed(list(CHECKS)) if not names or name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in as_completed([pool.submit(time_check, name) for name in slowest_first]):
            name, complaints, seconds = done.result()
            failed += bool(complaints)
            sys.stdout.write(f"{'FAIL' if complaints else 'ok':<5}{name:<8}{seconds:6.1f} s\n")
            for complaint in complaints:
                sys.stdout.write(f"     {complaint}\n")
            sys.stdout.flush()
    return 1 if failed else 0


def time_check(name: str) -> tuple[str, list[str], float]:
    """Runs a check by its name; returns the name, its complaints, and the seconds that it took."""
    started = time.monotonic()
    complaints = CHECKS[name]()
    return name, complaints, time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
