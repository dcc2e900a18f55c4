"""`python -m jepsen_like.systems.kafka.worker`: one client process of a run; what it does is in the plan on its
standard input.
"""

from jepsen_like.systems.kafka.member import run_member
from jepsen_like.systems.kafka.reader import run_reader
from jepsen_like.systems.kafka.sender import run_sender
from jepsen_like.systems.kafka.worker_pipe import MEMBER, READER, SENDER, WorkerPipe

ROLES = {SENDER: run_sender, READER: run_reader, MEMBER: run_member}


def main() -> None:
    """Work until the harness tells to quit, or is gone."""
    pipe = WorkerPipe()
    plan = pipe.plan()
    ROLES[plan.role](plan, pipe)


if __name__ == "__main__":
    main()
