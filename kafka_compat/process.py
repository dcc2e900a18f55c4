"""The broker process: one `Broker` behind a command with flags, which reports its events in JSON lines.

    python -m kafka_compat.process --cluster-id c --id 1 --listen 127.0.0.1:9092 --data data/1 --peer 2=… --peer 3=…

Every line on stdout is one object with `t_ns` (monotonic clock), `time` (UTC, ISO 8601) and `event`. The events: `listening`
(the port answers, though there may be no controller yet), `serving` (registered, up to date and unfenced), `controller` (this process
becomes or stops being it), `partition`, `high_watermark` (see `broker.reporter`), `damage` and `doubtful` (see below),
`connection_closed`, `connection_refused` (each with its reason), `stopping`, `stopped`, and before a bad end `failed`.
SIGTERM and SIGINT hand over leaderships and stop it; a second signal stops it at once.

A process with peers survives damage. A damaged log is cut, and fetched again from the other replicas. If damage is read
while the broker serves, the broker is closed and opened again within this process, as only recovery finds what is left.

Exit status:

- 0: stopped on request.
- 1: a broken invariant.
- 2: wrong usage.
- 4: the environment does not allow it. The port is taken, the directory cannot be used, belongs to another broker or is
  locked, the disk failed, or the metadata of a broker without peers is damaged.
"""

import logging
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial

import click
import trio

from kafka_compat.broker.broker import Broker, BrokerPlan
from kafka_compat.broker.hosting import BrokerReplaced
from kafka_compat.broker.ports import budget_of
from kafka_compat.config import InvalidSetting, Settings
from kafka_compat.config_keys import BROKER_KEYS
from kafka_compat.listeners import plan_listeners
from kafka_compat.storage.checkpoints import ForeignDirectory
from log.disk import this_boot
from log.errors import CorruptLog, StorageError
from raft.addresses import Address
from raft.client_codec import NODE_ID_MAX
from raft.errors import RaftError
from raft.net.certificates import UnusableFiles
from raft.process import (
    AddressType,
    EventWriter,
    NodeAddressType,
    ServerProcess,
    checked_cluster_id,
    leaves_of,
    members_apart,
    metrics_flag,
    secret_for,
    trust_flags,
    unique_addresses,
)

tell = EventWriter()

REOPEN_PAUSE_S = 0.5
"""Before a broker is opened again that was closed because of damage."""
NOT_REPAIRED = (StorageError, AssertionError)
"""The errors that end the process even if others occur with them."""


@click.command("broker", epilog=f"Settings for --set: {', '.join(sorted(BROKER_KEYS))}.")
@click.option("--id", "broker_id", type=click.IntRange(1, NODE_ID_MAX), required=True, help="This broker's id.")
@click.option("--cluster-id", required=True, help="Brokers of another cluster are refused.")
@click.option(
    "--listen",
    type=AddressType(),
    help="Where brokers connect, and clients if there are no other listeners; or set listeners.",
)
@click.option(
    "--data", "directory", type=click.Path(file_okay=False), required=True, help="Its directory; made if missing."
)
@click.option(
    "--peer", "peers", type=NodeAddressType(), multiple=True, help="Where this broker dials another; once for each."
)
@click.option(
    "--joins", is_flag=True, help="The cluster is there without this broker; each --peer is a present member of it."
)
@click.option(
    "--advertised", type=NodeAddressType(), multiple=True, help="Where clients reach a broker, if not where it listens."
)
@metrics_flag
@click.option(
    "--boot-id",
    default=this_boot,
    show_default="the machine's",
    help="Another one at a start means that the power was lost: what was not flushed may be gone.",
)
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A setting under Kafka's name.")
@trust_flags
def broker(
    broker_id: int,
    cluster_id: str,
    listen: Address | None,
    directory: str,
    metrics: Address | None,
    peers: tuple[tuple[int, Address], ...],
    joins: bool,
    advertised: tuple[tuple[int, Address], ...],
    boot_id: str,
    assignments: tuple[str, ...],
    secret_file: str | None,
    insecure: bool,
) -> None:
    """Run one broker until SIGTERM; prints one JSON object a line."""
    try:
        settings = Settings.from_assignments(assignments)
        own = unique_addresses("--advertised", advertised).get(broker_id)
        listen = plan_listeners(settings, listen, own)[0].listen
        budget_of(settings)
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
        joins=joins,
        advertised=own,
        settings=settings,
        secret=secret_for(listen, secret_file=secret_file, insecure=insecure),
        insecure=insecure,
        boot=boot_id,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    process = ServerProcess(name="broker", listen=listen, directory=directory, tell=tell, metrics=metrics)
    process.run(partial(_serve, plan, process), lambda error: _explain(error, plan))


async def _serve(plan: BrokerPlan, process: ServerProcess) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        while True:
            process.started, process.observed = False, None
            try:
                await _serve_once(plan, process, signals)
                break
            except (CorruptLog, BaseExceptionGroup) as error:
                causes = leaves_of(error)
                damage = next((each for each in causes if isinstance(each, CorruptLog)), None)
                if damage is None or not process.started or any(isinstance(each, NOT_REPAIRED) for each in causes):
                    raise
                tell(
                    "damage",
                    file=damage.file,
                    reason=f"{damage}",
                    repair="the broker opens its logs again, and repairs this one",
                )
            with trio.move_on_after(REOPEN_PAUSE_S):
                async for _ in signals:
                    break
                break
    tell("stopped")


async def _serve_once(plan: BrokerPlan, process: ServerProcess, signals: AsyncIterator[int]) -> None:
    """Serve until a signal arrives. Raises the error that ends a broker."""
    async with Broker.open(plan, tell=tell, owns_thread=True) as running:
        process.started, process.observed = True, running
        async for number in signals:
            tell("stopping", signal=signal.Signals(number).name)
            break
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_second_signal, signals, nursery.cancel_scope)
            await running.shut_down()
            nursery.cancel_scope.cancel()
        process.observed = None


async def _second_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


def _explain(error: BaseException, plan: BrokerPlan) -> str | None:
    """Returns one line about an error of the directory or the port, with its correction, or None for another error.

    An operator may obey it in any state of the cluster: it never loses a copy.
    """
    match error:
        case ForeignDirectory():
            return f"{error} (--data); nothing was changed. Give this broker a directory of its own"
        case CorruptLog():
            return f"{error}; the broker stops, and nothing was changed in --data {plan.data}. It has no peers to fetch that from"
        case UnusableFiles():
            return f"{error}; see ssl.keystore.location and ssl.truststore.location"
        case BrokerReplaced():
            return f"{error}; give each broker an --id of its own"
        case RaftError():
            return f"{error}"
        case _:
            return None


if __name__ == "__main__":
    broker()
