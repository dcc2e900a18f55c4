"""The broker process: one `Broker` behind a command with flags, which reports what it does in JSON lines.

    python -m kafka_compat.process --cluster-id c --id 1 --listen 127.0.0.1:9092 --data data/1 --peer 2=… --peer 3=…

Every line on stdout is one object with `t_ns` (monotonic clock) and `event`: `listening` (the port answers, though there may be no
controller yet), `serving` (registered, up to date and unfenced), `controller` (this process becomes or stops being it), `partition`,
`high_watermark` (see `broker.reporter`), `connection_closed`, `connection_refused` (each with its reason), `stopping`, `stopped`, and
before a bad end `failed`. SIGTERM and SIGINT hand over leaderships and stop it; a second signal stops it at once.

Exit status: 0 stopped when asked; 1 a broken invariant; 2 wrong usage; 4 the environment does not allow it: the port is taken, the
directory cannot be used, belongs to another broker, is locked or damaged, or the disk failed.
"""

import logging
import signal
import sys
from functools import partial

import click
import trio

from kafka_compat.broker.broker import METADATA, PARTITIONS, Broker, BrokerPlan, BrokerReplaced
from kafka_compat.config import InvalidSetting, Settings
from kafka_compat.config_keys import BROKER_KEYS
from kafka_compat.storage.checkpoints import ForeignDirectory
from log.errors import CorruptLog
from raft.client_codec import NODE_ID_MAX
from raft.errors import RaftError
from raft.process import (
    Address,
    AddressType,
    NodeAddressType,
    ServerProcess,
    Teller,
    checked_cluster_id,
    members_apart,
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
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    process = ServerProcess(name="broker", listen=listen, directory=directory, tell=tell)
    process.run(partial(_serve, plan, process), lambda error: _explain(error, plan, started=process.started))


async def _serve(plan: BrokerPlan, process: ServerProcess) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with Broker.open(plan, tell=tell, owns_thread=True) as running:
            process.started = True
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


def _explain(error: BaseException, plan: BrokerPlan, *, started: bool) -> str | None:
    """Returns one line about an error of the broker's directory or place, with its correction; None for any other error."""
    match error:
        case ForeignDirectory():
            return f"{error} (--data)"
        case CorruptLog(file=file):
            return f"{error}; {_after_damage(file, plan, started=started)}"
        case BrokerReplaced():
            return f"{error}; give each broker an --id of its own"
        case RaftError():
            return f"{error}"
        case _:
            return None


def _after_damage(file: str, plan: BrokerPlan, *, started: bool) -> str:
    """Returns what has become of the broker, and what to do: each of its two directories can be fetched again, but not from the same."""
    is_partition = file.startswith(plan.partitions)
    if started and not is_partition:
        return "the broker stops. Start it again: it cuts off what is damaged and fetches it from the others"
    so_far = "the broker stops" if started else "nothing was changed"
    if is_partition:
        lost, holders, fetched = PARTITIONS, "the other replicas up", "its partitions"
    else:
        lost, holders, fetched = (
            METADATA,
            "all other brokers up and holding everything that is committed",
            "the metadata",
        )
    return f"{so_far}. Keep a copy; then, with {holders}, remove `{lost}` in --data {plan.data}: this broker fetches {fetched} again"


if __name__ == "__main__":
    broker()
