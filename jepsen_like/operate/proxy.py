"""`quorumlog proxy`: a proxy before any Kafka cluster, whose clients get the answers that `quorumlog fault answer` asks for.

It puts its own addresses into all answers that name brokers, so that clients stay with it. The brokers may be Apache
Kafka's. It speaks plain text on both sides.
"""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import trio

from jepsen_like.cli import EnvironmentMissing, ExitStatus
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.port.answers import WrongAnswer
from jepsen_like.port.wires import Address
from jepsen_like.run.fault_desk import desk_open, undo_answers, wish_for_answer
from jepsen_like.run.options import directory_option
from jepsen_like.systems.kafka.answers.proxy import AnswerProxy

DATA: Final = Path("runs/proxy")
PORT_MAX: Final = 65535


def parse_addresses(context: click.Context, parameter: click.Parameter, value: str) -> tuple[Address, ...]:
    """Returns the addresses in `HOST:PORT,HOST:PORT`. Raises `BadParameter`."""
    found = []
    for text in value.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= PORT_MAX:
            raise click.BadParameter(f"{text!r} is not HOST:PORT", context, parameter)
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


class ProxyDesk:
    """Answers `quorumlog fault answer`, `undo`, `heal` and `status` for a proxy."""

    def __init__(self, proxy: AnswerProxy) -> None:
        self._proxy = proxy

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a request. Never raises for what a requester can get wrong."""
        try:
            match request.get("do"):
                case "answer":
                    return {"told": await wish_for_answer(self._proxy, request.get("words"))}
                case "undo" | "heal":
                    return {"told": undo_answers(self._proxy)}
                case "status":
                    leads = [f"port {port} leads to {host}:{at}" for (host, at), port in self._proxy.ports.items()]
                    return {"told": [*leads, *self._proxy.lines()]}
                case other:
                    return {"error": f"no request {other!r} for a proxy; there are answer, undo and status"}
        except WrongAnswer as wrong:
            return {"error": str(wrong), "usage": True}


@click.command()
@click.option(
    "--to",
    "brokers",
    required=True,
    callback=parse_addresses,
    metavar="HOST:PORT,...",
    help="The brokers' bootstrap.servers.",
)
@click.option("--bind", default=LOOPBACK, show_default=True, metavar="HOST", help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, PORT_MAX), default=0, help="The first broker's port here.  [default: any]"
)
@click.option("--advertise", default=None, metavar="HOST", help="Where clients reach the proxy.  [default: --bind]")
@directory_option("--data", DATA, "Directory of its socket, for quorumlog fault.")
def proxy(*, brokers: tuple[Address, ...], bind: str, port: int, advertise: str | None, data: Path) -> ExitStatus:
    """Stand before a Kafka cluster until Ctrl-C, and answer in its place what quorumlog fault answer asks for.

    Prints one line: what clients need to reach the cluster through it. Exit status 4 if it cannot listen.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        trio.run(_stand_before, brokers, bind, port, advertise, data)
    except* OSError as group:
        error = next(each for each in group.exceptions if not isinstance(each, BaseExceptionGroup))
        raise EnvironmentMissing(
            f"the proxy cannot listen: {error}; choose another --port, --bind or --data"
        ) from group
    return ExitStatus.VALID


async def _stand_before(brokers: tuple[Address, ...], bind: str, port: int, advertise: str | None, data: Path) -> None:
    def news(line: str) -> None:
        click.echo(line, err=True)

    standing = AnswerProxy(host=bind, advertised=advertise, rewrites=True, on_trouble=news)
    ports = [standing.listen(broker, port if number == 0 else 0) for number, broker in enumerate(brokers)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(standing.serve)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with desk_open(data, ProxyDesk(standing)):
                click.echo("bootstrap.servers=" + ",".join(f"{advertise or bind}:{each}" for each in ports))
                option = "" if data == Path("runs/up") else f" --data {data}"
                news(
                    f"choose answers: quorumlog fault answer Produce --error NOT_LEADER_OR_FOLLOWER{option}; Ctrl-C ends it"
                )
                async for _ in signals:
                    break
        nursery.cancel_scope.cancel()
