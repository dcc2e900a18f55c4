"""A machine that lost its power is on another boot, and its processes are started with that."""

from pathlib import Path

from jepsen_like.cluster.machine import Machine
from jepsen_like.port.port import Member, ProcessPlan
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.processes import broker_command


def test_every_loss_of_power_makes_another_boot(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    boots = [machine.boot_id]
    for _ in range(2):
        machine.lose_power()
        boots.append(machine.boot_id)
    machine.boot()
    assert len(set(boots)) == 3
    assert machine.boot_id == boots[-1]


def test_a_broker_is_started_with_the_boot_of_its_machine(tmp_path: Path) -> None:
    plan = ProcessPlan(
        member=Member(1, "broker"),
        cluster_id="test",
        listen=("127.0.0.1", 1),
        data=tmp_path,
        peers={},
        advertised={1: ("127.0.0.1", 2)},
        mode=KafkaMode.of([]).on(1),
        boot_id="the second",
    )
    command = broker_command(plan)
    assert command[command.index("--boot-id") + 1] == "the second"
