"""`python -m jepsen_like.systems.kafka.worker`: one client process of a run; what it does is in the plan on its standard input."""

from jepsen_like.systems.kafka.pipes import READER, SENDER, WorkerPipe
from jepsen_like.systems.kafka.reader import run_reader
from jepsen_like.systems.kafka.sender import run_sender

ROLES = {SENDER: run_sender, READER: run_reader}


def main() -> None:
    """Work until the harness tells to quit, or is gone."""
    pipe = WorkerPipe()
    plan = pipe.plan()
    ROLES[plan.role](plan, pipe)


if __name__ == "__main__":
    main()
