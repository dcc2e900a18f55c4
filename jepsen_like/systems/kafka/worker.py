"""`python -m jepsen_like.systems.kafka.worker`: one client process of a run, with its plan on standard input."""

from collections.abc import Mapping

from jepsen_like.systems.kafka.member import MemberWorker
from jepsen_like.systems.kafka.reader import Reader
from jepsen_like.systems.kafka.sender import Sender
from jepsen_like.systems.kafka.worker_plan import MEMBER, READER, SENDER, WorkerPlan
from jepsen_like.workload.client_process import ClientPipe

ROLES: Mapping[str, type[Sender | Reader | MemberWorker]] = {SENDER: Sender, READER: Reader, MEMBER: MemberWorker}


def main() -> None:
    """Work until the harness tells to quit, or is gone."""
    pipe = ClientPipe()
    plan = pipe.plan(WorkerPlan)
    ROLES[plan.role](plan, pipe).run()


if __name__ == "__main__":
    main()
