"""`python -m jepsen_like.systems.kafka.worker`: one client process of a run, with its plan on standard input."""

from collections.abc import Mapping

from jepsen_like.systems.kafka.keyed_sender import KeyedSender
from jepsen_like.systems.kafka.member import MemberWorker
from jepsen_like.systems.kafka.paced_sender import PacedSender
from jepsen_like.systems.kafka.reader import Reader
from jepsen_like.systems.kafka.scanner import Scanner
from jepsen_like.systems.kafka.sender import Sender
from jepsen_like.systems.kafka.stable_reader import StableReader
from jepsen_like.systems.kafka.transactor import Transactor
from jepsen_like.systems.kafka.worker_plan import (
    FEEDER,
    KEYED_SENDER,
    MEMBER,
    PACED_SENDER,
    READER,
    SCANNER,
    SENDER,
    STABLE_READER,
    TRANSFORMER,
    WorkerPlan,
)
from jepsen_like.workload.client_process import ClientPipe

ROLES: Mapping[str, type[Sender | Reader | MemberWorker | Transactor | StableReader | Scanner]] = {
    SENDER: Sender,
    READER: Reader,
    MEMBER: MemberWorker,
    FEEDER: Transactor,
    TRANSFORMER: Transactor,
    STABLE_READER: StableReader,
    KEYED_SENDER: KeyedSender,
    SCANNER: Scanner,
    PACED_SENDER: PacedSender,
}


def main() -> None:
    """Work until the harness tells to quit, or is gone."""
    pipe = ClientPipe()
    plan = pipe.plan(WorkerPlan)
    ROLES[plan.role](plan, pipe).run()


if __name__ == "__main__":
    main()
