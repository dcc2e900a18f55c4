"""`python -m jepsen_like.systems.rocketmq.cpp_client_worker`: RocketMQ's C++ client, its plan on standard input."""

import os

from jepsen_like.systems.rocketmq.client_plan import MEMBER, SENDER, RocketClientPlan
from jepsen_like.systems.rocketmq.cpp_client_member import run_member
from jepsen_like.systems.rocketmq.cpp_client_sender import run_sender
from jepsen_like.workload.client_process import ClientPipe

ROLES = {SENDER: run_sender, MEMBER: run_member}


def main() -> None:
    """Work until the harness tells to quit, or is gone."""
    pipe = ClientPipe()
    plan = pipe.plan(RocketClientPlan)
    ROLES[plan.role](plan, pipe)
    os._exit(0)  # the client's destructors are not safe while its threads run


if __name__ == "__main__":
    main()
