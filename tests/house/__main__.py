"""`python -m tests.house [NAME ...]`: run the house checks, all or the named ones, and say what each found."""

import sys
import time

from tests.house.checks import CHECKS


def main(names: list[str]) -> int:
    """Run the checks and print one line each, then the complaints; 0 when there are none, 2 for an unknown name."""
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        sys.stderr.write(f"no check named {', '.join(unknown)}; there are {', '.join(CHECKS)}\n")
        return 2
    failed = 0
    for name in names or list(CHECKS):
        started = time.monotonic()
        complaints = CHECKS[name]()
        failed += bool(complaints)
        sys.stdout.write(f"{'FAIL' if complaints else 'ok':<5}{name:<8}{time.monotonic() - started:6.1f} s\n")
        for complaint in complaints:
            sys.stdout.write(f"     {complaint}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
