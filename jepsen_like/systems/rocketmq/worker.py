"""`python -m jepsen_like.systems.rocketmq.worker`: one process with RocketMQ's C++ client; what it does is in the plan
on its standard input.
"""

import os

from jepsen_like.systems.rocketmq.wheel_member import run_member
from jepsen_like.systems.rocketmq.wheel_sender import run_sender
from jepsen_like.systems.rocketmq.worker_pipe import MEMBER, SENDER, WheelPipe

ROLES = {SENDER: run_sender, MEMBER: run_member}


def main() -> None:
    """Work until the harness tells to quit, or is gone."""
    pipe = WheelPipe()
    plan = pipe.plan()
    ROLES[plan.role](plan, pipe)
    os._exit(0)  # the client's destructors are not safe while its threads run


if __name__ == "__main__":
    main()
