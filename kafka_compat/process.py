"""The broker process: one `Broker` behind a command with flags, which reports what it does in JSON lines.

    python -m kafka_compat.process --cluster-id c --id 1 --listen 127.0.0.1:9092 --data data/1 --peer 2=… --peer 3=…

Every line on stdout is one object with `t_ns` (monotonic clock) and `event`: `listening` (the port answers, though there may be no
controller yet), `serving` (registered, up to date and unfenced), `controller` (this process becomes or stops being it), `partition`,
`high_watermark` (see `broker.reporter`), `connection_closed`, `connection_refused` (each with its reason), `stopping`, `stopped`, and
before a bad end `fatal`. SIGTERM and SIGINT hand over leaderships and stop it; a second signal stops it at once.

Exit status: 0 stopped when asked; 1 a broken invariant; 2 wrong usage; 4 the environment does not allow it: the port is taken, the
directory cannot be used, belongs to another broker, is locked or damaged, or the disk failed.
"""

import logging
import signal
import sys
import traceback
from typing import NoReturn

import click
import trio

from kafka_compat.broker.broker import Broker, BrokerPlan, BrokerReplaced
from kafka_compat.config import InvalidSetting, Settings
from kafka_compat.config_keys import BROKER_KEYS
from kafka_compat.storage.checkpoints import ForeignDirectory
from log.errors import CorruptLog, DirectoryLocked, NoSpace, StorageFailed
from raft import descriptors
from raft.client_codec import NODE_ID_MAX
from raft.errors import RaftError
from raft.process import (
    EXIT_BROKEN_INVARIANT,
    EXIT_ENVIRONMENT,
    Address,
    AddressType,
    NodeAddressType,
    Teller,
    checked_cluster_id,
    first_cause,
    members_apart,
    tame_garbage_collection,
    unique_addresses,
)

tell = Teller()


@click.command("broker", epilog=f"Settings for --set: {', '.join(sorted(BROKER_KEYS))}.")
@click.option("--id", "broker_id", type=click.IntRange(1, NODE_ID_MAX), required=True, help="This broker's id.")
@click.option("--cluster-id", required=True, help="Brokers of another cluster are refused.")
@click.option("--listen", type=AddressType(), required=True, help="Where clients and brokers connect.")
@click.option(
    "--data", "directory", type=click.Path(file_okay=False), required=True, help="Its directory; made if missing."
)
@click.option(
    "--peer", "peers", type=NodeAddressType(), multiple=True, help="Where this broker dials another; once for each."
)
@click.option(
    "--advertised", type=NodeAddressType(), multiple=True, help="Where clients reach a broker, if not where it listens."
)
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A setting under Kafka's name.")
def broker(
    broker_id: int,
    cluster_id: str,
    listen: Address,
    directory: str,
    peers: tuple[tuple[int, Address], ...],
    advertised: tuple[tuple[int, Address], ...],
    assignments: tuple[str, ...],
) -> None:
    """Run one broker until SIGTERM; prints one JSON object a line."""
    try:
        settings = Settings.from_assignments(assignments)
    except InvalidSetting as error:
        raise click.UsageError(f"--set: {error}") from None
    others = unique_addresses("--peer", peers, forbidden=broker_id)
    members_apart({broker_id: listen, **others})
    plan = BrokerPlan(
        cluster_id=checked_cluster_id(cluster_id),
        broker_id=broker_id,
        listen=listen,
        data=directory,
        peers=others,
        advertised=unique_addresses("--advertised", advertised).get(broker_id),
        settings=settings,
    )
    _run(plan)


def _run(plan: BrokerPlan) -> None:
    """Run to the end; whatever can go wrong ends in one line and a status."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    descriptors.raise_limit()
    tame_garbage_collection()
    try:
        trio.run(_serve, plan, strict_exception_groups=True)
    except BaseExceptionGroup as group:
        _end_for(first_cause(group), plan)
    except Exception as error:  # noqa: BLE001 - the top of the process: told apart and re-raised below
        _end_for(error, plan)


async def _serve(plan: BrokerPlan) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with Broker.open(plan, tell=tell, owns_thread=True) as running:
            async for number in signals:
                tell("stopping", signal=signal.Signals(number).name)
                break
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_second_signal, signals, nursery.cancel_scope)
                await running.shut_down()
                nursery.cancel_scope.cancel()
    tell("stopped")


async def _second_signal(signals: object, scope: trio.CancelScope) -> None:
    async for _ in signals:  # type: ignore[attr-defined]  # what `open_signal_receiver` gives has no public type
        scope.cancel()


def _end_for(error: BaseException, plan: BrokerPlan) -> NoReturn:
    line = _environment_line(error, plan)
    if line is not None:
        _end(EXIT_ENVIRONMENT, line)
    if isinstance(error, AssertionError):
        traceback.print_exception(error)
        _end(EXIT_BROKEN_INVARIANT, f"broken invariant: {error}")
    tell("fatal", status=1, reason=f"{type(error).__name__}: {error}")
    raise error


def _environment_line(error: BaseException, plan: BrokerPlan) -> str | None:
    """Returns one line about an error outside of this program, with its correction; None for any other error."""
    host, port = plan.listen
    match error:
        case DirectoryLocked():
            return f"{error}; stop that process or choose another --data"
        case ForeignDirectory():
            return f"{error} (--data)"
        case CorruptLog():
            return (
                f"{error}; nothing was changed. Keep a copy; then, with the other replicas up, remove `partitions` in --data "
                f"{plan.data}: this broker fetches its partitions again"
            )
        case NoSpace():
            return f"{error}; free some space"
        case StorageFailed():
            return f"{error}; the broker stops, since what the disk holds is not known. Check --data {plan.data} and the disk"
        case BrokerReplaced():
            return f"{error}; give each broker an --id of its own"
        case RaftError():
            return f"{error}"
        case OSError():
            return f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --listen or stop what holds it"
        case _:
            return None


def _end(status: int, line: str) -> NoReturn:
    tell("fatal", status=status, reason=line)
    sys.stderr.write(f"quorumlog broker: {line}\n")
    sys.exit(status)


if __name__ == "__main__":
    broker()
