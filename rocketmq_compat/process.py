"""The processes of RocketMQ's mode: one role behind a command with flags, which reports its events in JSON lines.

    python -m rocketmq_compat.process nameserver --listen 127.0.0.1:9876
    python -m rocketmq_compat.process broker --listen 127.0.0.1:10911 --data data/a --set namesrvAddr=127.0.0.1:9876

Every line on stdout is one object with `t_ns` (monotonic clock), `time` (UTC, ISO 8601) and `event`. The events of both
roles: `listening`, `connection_closed`, `connection_refused` (each with its reason), `stopping`, `stopped`, and before a bad end `failed`.
SIGTERM and SIGINT stop either.

A name server adds `broker_registered` and `broker_removed`. A broker adds:

- `serving`, `registered`, `registration_failed`, `ha_connection_lost`, `ha_connection_closed`, `slave_sync_failed`;
- `divergence` (a slave holds records that its master has lost), `divergence_decided` (by an operator),
  `divergence_ended`;
- `copy_in_doubt` (it may lack records that it had), `copy_back_began`, `copy_is_sure`;
- `damage_read` (it begins again, and repairs its copy), `checkpoint_unusable`, `checkpoint_failed`;
- `role` (master or slave, and its epoch), and `copy_moved` (the end and the confirmed end of its log, a few times a
  second while it moves);
- in a raft group `raft_log_trimmed`, `commit_log_incomplete` (this copy lacks records that have left the raft log),
  `commit_log_complete`, `commit_log_reset`, `commit_log_cut` and `copy_refused`.

Exit status:

- 0: stopped on request.
- 1: a broken invariant.
- 2: wrong usage.
- 4: the environment does not allow it. The port is taken, a file cannot be used or is damaged, or the disk failed.
"""

import logging
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import click
import trio

from log.disk import this_boot
from log.errors import CorruptLog, StorageFailed
from raft.addresses import Address
from raft.errors import RaftError
from raft.net.certificates import UnusableFiles
from raft.process import AddressType, EventWriter, ServerProcess, metrics_flag, secret_for, trust_flags
from rocketmq_compat.broker.authorization import UnusableAclFile
from rocketmq_compat.broker.broker import Broker, BrokerPlan, DamageRead
from rocketmq_compat.broker.raft_copy import ForeignCommitLog
from rocketmq_compat.config import InvalidProperty, Properties, assignments_of
from rocketmq_compat.config_keys import BROKER_PROPERTIES, NAMESRV_PROPERTIES
from rocketmq_compat.divergence_commands import accept_loss, discard
from rocketmq_compat.nameserver.kv_file import DamagedKvFile
from rocketmq_compat.nameserver.server import NameServer, NameServerPlan

tell = EventWriter()
REPAIRS_MAX: Final = 3
REPAIRS_S: Final = 60.0
"""A broker that has read damage begins again in its process, but not more often than so in this time."""


class DetourType(click.ParamType[tuple[Address, Address]]):
    """`HOST:PORT=HOST:PORT`."""

    name = "HOST:PORT=HOST:PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Address, Address]:
        """See `click.ParamType`."""
        told, _, dialed = str(value).partition("=")
        return AddressType().convert(told, param, ctx), AddressType().convert(dialed, param, ctx)


@click.group()
def processes() -> None:
    """Run one process of RocketMQ's mode, which prints one JSON object a line; or tell a broker which log counts."""


processes.add_command(accept_loss)
processes.add_command(discard)


@processes.command("nameserver", epilog=f"Properties for --set: {', '.join(sorted(NAMESRV_PROPERTIES))}.")
@click.option("--listen", type=AddressType(), help="Where it listens, if not at the property listenPort of all hosts.")
@click.option(
    "--config", "file", type=click.Path(exists=True, dir_okay=False), help="A properties file, as RocketMQ's."
)
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A property under RocketMQ's name.")
@metrics_flag
@trust_flags
def nameserver(
    listen: Address | None,
    file: str | None,
    assignments: tuple[str, ...],
    metrics: Address | None,
    secret_file: str | None,
    insecure: bool,
) -> None:
    """Run one name server until SIGTERM."""
    try:
        written = assignments_of(Path(file).read_text(errors="replace")) if file is not None else []
        properties = Properties.read(NAMESRV_PROPERTIES, [*written, *assignments])
    except InvalidProperty as error:
        raise click.UsageError(f"{error}") from None
    place = listen or ("0.0.0.0", properties.number("listenPort"))
    secret = secret_for(place, secret_file=secret_file, insecure=insecure)
    plan = NameServerPlan(listen=place, properties=properties, secret=secret, insecure=insecure)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    process = ServerProcess(
        name="nameserver",
        listen=plan.listen,
        directory=properties.text("kvConfigPath") or "",
        tell=tell,
        metrics=metrics,
    )
    process.run(partial(_serve_names, plan, process), _explain)


@processes.command("broker", epilog=f"Properties for --set: {', '.join(sorted(BROKER_PROPERTIES))}.")
@click.option(
    "--listen", type=AddressType(), help="Where clients connect, if not at the property listenPort of all hosts."
)
@click.option(
    "--ha-listen",
    type=AddressType(),
    help="Where slaves connect, if not at the property haListenPort of the same host.",
)
@click.option(
    "--advertise",
    type=AddressType(),
    help="Where clients and slaves reach it, if they go through something else: in place of brokerIP1 and the port.",
)
@click.option(
    "--detour",
    "detours",
    type=DetourType(),
    multiple=True,
    help="Where a slave dials its master instead of where the name servers say that it is: told and dialed address.",
)
@click.option(
    "--joins",
    is_flag=True,
    help="The raft group is there without this broker; dLegerPeers has its present members, too.",
)
@click.option(
    "--boot-id",
    "boot",
    default=this_boot,
    help="Names the boot of the machine, in place of the system's: under another one the broker takes what was not flushed for lost.",
)
@click.option(
    "--data", type=click.Path(file_okay=False), help="Its directory, if storePathRootDir is not given; made if missing."
)
@click.option(
    "--config", "file", type=click.Path(exists=True, dir_okay=False), help="A properties file, as RocketMQ's."
)
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A property under RocketMQ's name.")
@trust_flags
@metrics_flag
def broker(
    listen: Address | None,
    ha_listen: Address | None,
    advertise: Address | None,
    detours: tuple[tuple[Address, Address], ...],
    data: str | None,
    file: str | None,
    assignments: tuple[str, ...],
    joins: bool,
    boot: str,
    secret_file: str | None,
    insecure: bool,
    metrics: Address | None,
) -> None:
    """Run one broker until SIGTERM."""
    try:
        written = assignments_of(Path(file).read_text(errors="replace")) if file is not None else []
        properties = Properties.read(BROKER_PROPERTIES, [*written, *assignments])
        directory = data or properties.text("storePathRootDir")
        if directory is None:
            raise click.UsageError("a broker needs a directory: give --data")
        place = listen or ("0.0.0.0", properties.number("listenPort"))
        plan = BrokerPlan(
            listen=place,
            secret=secret_for(place, ha_listen or place, secret_file=secret_file, insecure=insecure),
            insecure=insecure,
            ha_listen=ha_listen,
            advertised=advertise,
            detours=dict(detours),
            data=directory,
            properties=properties,
            joins=joins,
            boot=boot,
        )
    except InvalidProperty as error:
        raise click.UsageError(f"{error}") from None
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    process = ServerProcess(name="broker", listen=plan.listen, directory=directory, tell=tell, metrics=metrics)
    process.run(partial(_serve_messages, plan, process), _explain_broker)


async def _serve_messages(plan: BrokerPlan, process: ServerProcess) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        repairs = deque[float](maxlen=REPAIRS_MAX)
        while True:
            try:
                await _serve(plan, process, signals)
                break
            except DamageRead as found:
                now = trio.current_time()
                if len(repairs) == REPAIRS_MAX and repairs[0] > now - REPAIRS_S:
                    raise found.damage from None
                repairs.append(now)
                tell("damage_read", reason=str(found.damage))
    tell("stopped")


async def _serve(plan: BrokerPlan, process: ServerProcess, signals: AsyncIterator[int]) -> None:
    """Serve until a signal comes. Raises `DamageRead` if the broker is to begin again, which repairs its copy."""
    async with Broker.open(plan, tell=tell, owns_thread=True) as running:
        process.started, process.observed = True, running
        async for number in signals:
            tell("stopping", signal=signal.Signals(number).name)
            break
        await running.shut_down()
        process.observed = None


def _explain_broker(error: BaseException) -> str | None:
    match error:
        case ForeignCommitLog() | RaftError() | UnusableFiles() | InvalidProperty() | UnusableAclFile():
            return f"{error}"
        case CorruptLog():
            return (
                f"{error}; the broker stops, and nothing was changed: it knows of no other copy. If it has slaves, set totalReplicas to the "
                "number of brokers of its name: then it cuts the log before the damage, and copies back what they hold"
            )
        case _:
            return None


async def _serve_names(plan: NameServerPlan, process: ServerProcess) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with NameServer.open(plan, tell=tell, owns_thread=True) as running:
            process.started, process.observed = True, running
            async for number in signals:
                tell("stopping", signal=signal.Signals(number).name)
                break
    tell("stopped")


def _explain(error: BaseException) -> str | None:
    """Returns one line about an error of the process's place, with its correction, or None for any other error."""
    match error:
        case DamagedKvFile():
            return f"{error}; nothing was changed. Restore or remove it (kvConfigPath)"
        case UnusableFiles() | InvalidProperty():
            return f"{error}"
        case StorageFailed():
            return f"{error}; the name server stops. Check the file of kvConfigPath and its disk"
        case _:
            return None


if __name__ == "__main__":
    processes()
