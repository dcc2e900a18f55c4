"""Serves metrics, health and readiness of a process over HTTP: `/metrics` for Prometheus, `/healthz`, `/readyz`.

A thread of its own answers one request after another, each within bounds of size and time. Figures are taken in the loop
of the process, when they are asked for: without a request nothing is done. `/healthz` is 200 if the loop takes turns,
`/readyz` if clients are served. Needs the package prometheus-client (`quorumlog[prometheus]`).
"""

import socket
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from socketserver import TCPServer
from typing import Any, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import trio
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from raft.addresses import Address
from raft.metrics import READY, Figure, Metric, MetricsUnavailable, Observed

TAKES_TURNS_WITHIN_S = 5.0
"""A loop that does not take a turn for longer is not healthy."""
REQUEST_WITHIN_S = 5.0
"""A client that does not finish its request in this time is left."""

T = TypeVar("T")
Ask = Callable[[Callable[[], T]], T]


class _NotTurning(Exception):
    """The loop has not taken a turn in time."""


class _Handler(WSGIRequestHandler):
    """Leaves slow clients, and logs nothing."""

    timeout = REQUEST_WITHIN_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Requests are no events of the process."""


class _Server(WSGIServer):
    """Serves one request at a time."""

    allow_reuse_address = True
    request_queue_size = 16

    def server_bind(self) -> None:
        """As the base class, without a name server: it would look for the name of the host."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is no event of the process."""


class _Server6(_Server):
    """The same on an address of IPv6."""

    address_family = socket.AF_INET6


class _FiguresCollector(Collector):
    """Turns figures into what Prometheus reads."""

    def __init__(self, figures: Callable[[], Iterable[Figure]]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Family]:
        """Yields a family for each metric that has a figure."""
        by_metric: dict[Metric, list[Figure]] = defaultdict(list)
        for figure in self._figures():
            by_metric[figure.metric].append(figure)
        for metric, figures in by_metric.items():
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(metric.name, metric.meaning, labels=metric.labels)
            for figure in figures:
                family.add_metric(figure.labels, figure.value)
            yield family


class _Pages:
    """The application behind the server. It asks the loop, from the server's thread."""

    def __init__(self, ask: Ask[Any], observed: Observed) -> None:
        self._ask = ask
        self._observed = observed
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_FiguresCollector(lambda: self._ask(self._figures)))
        for kind in (ProcessCollector, PlatformCollector, GCCollector):
            kind(registry=self._registry)

    def _figures(self) -> list[Figure]:
        return [READY(self._observed.obstacle() is None), *self._observed.figures()]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        """Answer one request, as WSGI has it."""
        status, kind, body = self._answer(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    def _answer(self, method: str, path: str) -> tuple[str, str, bytes]:
        text = "text/plain; charset=utf-8"
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", text, b"ask by GET\n"
        try:
            match path:
                case "/metrics":
                    return "200 OK", CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self._registry)
                case "/healthz":
                    self._ask(lambda: None)
                    return "200 OK", text, b"ok\n"
                case "/readyz":
                    obstacle = self._ask(self._observed.obstacle)
                    if obstacle is None:
                        return "200 OK", text, b"ok\n"
                    return "503 Service Unavailable", text, f"{obstacle}\n".encode()
                case _:
                    return "404 Not Found", text, b"there are /metrics, /healthz and /readyz\n"
        except _NotTurning:
            late = f"the loop has not taken a turn for {TAKES_TURNS_WITHIN_S:g} s\n"
            return "503 Service Unavailable", text, late.encode()


@asynccontextmanager
async def metrics_served(address: Address, observed: Observed) -> AsyncIterator[Address]:
    """Serve until the end of the block; yields the address. `observed` is asked at each request, in the loop.

    Raises `MetricsUnavailable` if the port cannot be bound.
    """
    token = trio.lowlevel.current_trio_token()

    def ask(work: Callable[[], T]) -> T:
        answer: Future[T] = Future()

        def answer_it() -> None:
            try:
                answer.set_result(work())
            except Exception as error:  # noqa: BLE001 - raised in the thread that asks
                answer.set_exception(error)

        try:
            token.run_sync_soon(answer_it)
            return answer.result(TAKES_TURNS_WITHIN_S)
        except (TimeoutError, trio.RunFinishedError):
            raise _NotTurning from None

    host, port = address
    try:
        server = (_Server6 if ":" in host else _Server)((host, port), _Handler)
    except OSError as error:
        raise MetricsUnavailable(f"cannot serve metrics on {host}:{port}: {error.strerror or error}") from None
    server.set_app(_Pages(ask, observed))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_name, server.server_port
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.shutdown)
        server.server_close()
