"""The network of a run that needs root: a network namespace for each node and one for the clients, and between them a
switch of our own (`switch`) that handles packets.

Every namespace holds one TAP device, with an address in a private network that exists nowhere else; the other end of
all TAP devices is the switch process. Namespaces and devices have no names outside: they exist as long as a process or
a descriptor holds them, so that nothing is left behind, however a run ends.

The harness itself stands in the clients' namespace while the network is open (only its main thread, and what that
starts); so every socket of a client is made there. It reaches each node past the switch, by sockets made in the node's
own namespace, which faults do not touch.
"""

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from jepsen_like.cluster.fault_proxy import Link
from jepsen_like.cluster.location import ANY_HOST, FurtherPorts, Site
from jepsen_like.cluster.poller import Poller
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.cluster.process import die_with_parent
from jepsen_like.port.wires import CLIENTS, Condition, Evidence, Pair, Route

CLONE_NEWNET = 0x40000000
TUN_DEVICE = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU, SIOCSIFHWADDR, SIOCSARP = 0x8916, 0x891C, 0x8922, 0x8924, 0x8955
IFF_UP = 0x1
ARPHRD_ETHER = 1
ATF_COM, ATF_PERM = 0x02, 0x04
INTERFACE = "run0"
NETMASK = "255.255.255.0"
MTU_BYTES = 9000
"""Large frames: the price of a switch is by the frame."""
PORT = 7000
"""The port on which every node listens, each in its own namespace."""
ANSWER_WITHIN_S = 10.0


class NoNamespaces(Exception):
    """This machine gives us no network of our own."""


def ip_address(port: int) -> str:
    """Returns the address of a port of the switch; the clients' is the last."""
    return f"10.77.0.{254 if port == CLIENTS else port}"


# -------------------------------------------------------------------- namespaces


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _require(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise NoNamespaces(f"{what}: {os.strerror(code)}")


def new_namespace() -> int:
    """Returns a descriptor of a new network namespace, which keeps it alive. Raises `NoNamespaces` without rights."""
    found: list[int | NoNamespaces] = []

    def unshare() -> None:
        # In a thread of its own, which ends in there: the calling thread stays in its namespace.
        try:
            _require(_libc().unshare(CLONE_NEWNET), "a new network namespace")
            found.append(_own_namespace())
        except NoNamespaces as error:
            found.append(error)

    thread = threading.Thread(target=unshare)
    thread.start()
    thread.join()
    if isinstance(found[0], NoNamespaces):
        raise found[0]
    return found[0]


def enter(namespace: int) -> None:
    """Move the calling thread into a namespace."""
    _require(_libc().setns(namespace, CLONE_NEWNET), "entering a network namespace")


@contextmanager
def inside(namespace: int) -> Iterator[None]:
    """The calling thread is in a namespace meanwhile."""
    home = _own_namespace()
    try:
        enter(namespace)
        try:
            yield
        finally:
            enter(home)
    finally:
        os.close(home)


def _own_namespace() -> int:
    return os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def socket_in(namespace: int) -> socket.socket:
    """A TCP socket that belongs to a namespace, wherever it is used."""
    with inside(namespace):
        return socket.socket()


# -------------------------------------------------------------------- devices


def open_tap(namespace: int, port: int, others: Iterable[int]) -> int:
    """Make a TAP device in a namespace, up, with addresses, neighbours and loopback. Returns its other end."""
    with inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        tap = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), IFF_TAP | IFF_NO_PI))

            def configure(request: int, value: bytes) -> None:
                fcntl.ioctl(control, request, struct.pack("16s24s", INTERFACE.encode(), value))

            configure(SIOCSIFHWADDR, struct.pack("H", ARPHRD_ETHER) + hardware_address(port))
            configure(SIOCSIFADDR, _socket_address(ip_address(port)))
            configure(SIOCSIFNETMASK, _socket_address(NETMASK))
            configure(SIOCSIFMTU, struct.pack("i", MTU_BYTES))
            for interface in (INTERFACE, "lo"):
                _raise_interface(control, interface)
            for other in others:
                # Known for good: a question for a neighbour would get lost in a cut, and its failure be told at once.
                fcntl.ioctl(
                    control,
                    SIOCSARP,
                    _socket_address(ip_address(other))
                    + struct.pack("H14s", ARPHRD_ETHER, hardware_address(other))
                    + struct.pack("i16x16s", ATF_COM | ATF_PERM, INTERFACE.encode()),
                )
        except OSError as error:
            os.close(tap)
            raise NoNamespaces(f"a TAP device: {error.strerror}") from None
    return tap


def hardware_address(port: int) -> bytes:
    """Locally administered; the switch reads the port from its last byte."""
    return bytes([2, 0, 0, 0, 0, port])


def _socket_address(address: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))


def _raise_interface(control: socket.socket, interface: str) -> None:
    asked = struct.pack("16sH22x", interface.encode(), 0)
    (flags,) = struct.unpack_from("H", fcntl.ioctl(control, SIOCGIFFLAGS, asked), 16)
    fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", interface.encode(), flags | IFF_UP))


def lacking() -> str | None:
    """Returns why there can be no such network here, and what to do; None if there can."""
    if not Path(TUN_DEVICE).exists():
        return f"needs {TUN_DEVICE}, which this machine does not have"
    try:
        namespace = new_namespace()
        try:
            os.close(open_tap(namespace, 1, ()))
        finally:
            os.close(namespace)
    except (NoNamespaces, OSError) as error:
        return f"needs root ({error})"
    return None


# -------------------------------------------------------------------- the network


class SwitchedNetwork:
    """The harness's calls to its switch. Every call returns when the switch has answered."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        requests.settimeout(ANSWER_WITHIN_S)

    def lay(self, routes: Iterable[Route]) -> None:
        """Let these ways lead over lines, for good."""
        self._ask(do="lay", routes=[attrs.asdict(route) for route in routes])

    def impose(self, condition: Condition, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> None:
        """Let these ways be so from now on. The opposite ways stay as they are."""
        self._ask(do="impose", condition=attrs.asdict(condition), pairs=list(pairs), clients=list(clients))

    def reset(self, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> int:
        """End every connection that uses one of these ways, with RST at both ends. Returns how many there were."""
        return int(self._ask(do="reset", pairs=list(pairs), clients=list(clients)))

    def heal(self) -> None:
        """Make every way clear."""
        self._ask(do="heal")

    def evidence(self) -> list[Evidence]:
        """Returns the effects seen on every way on which something was imposed since the last `heal`."""
        return [Evidence(**{**each, "condition": Condition(**each["condition"])}) for each in self._ask(do="evidence")]

    def _ask(self, **request: Any) -> Any:
        self._requests.send(json.dumps(request).encode())
        return json.loads(self._requests.recv(1 << 20))


class _WayIn:
    """The harness's own way to each node, past the switch: a port on loopback here, a socket in the node's namespace.

    `through` leads by the switch: from the namespace of the first node of a pair to the second. `further` are the
    ways to the nodes' other ports, by name.
    """

    def __init__(self, namespaces: Mapping[int, int], further_ports: Mapping[str, int]) -> None:
        self._poller = Poller()
        self.links = {
            node: Link(self._poller, f"harness>{node}", (LOOPBACK, PORT), functools.partial(socket_in, namespace))
            for node, namespace in namespaces.items()
        }
        self.through = {
            (one, other): Link(
                self._poller, f"{one}>{other}", (ip_address(other), PORT), functools.partial(socket_in, namespace)
            )
            for one, namespace in namespaces.items()
            for other in namespaces
            if one != other
        }
        self.further = {
            name: {
                node: Link(
                    self._poller, f"harness>{node} {name}", (LOOPBACK, port), functools.partial(socket_in, namespace)
                )
                for node, namespace in namespaces.items()
            }
            for name, port in further_ports.items()
        }

    async def serve(self) -> None:
        """Carry everything until cancelled; then every port and connection is closed."""
        try:
            await self._poller.run()
        finally:
            others = (link for links in self.further.values() for link in links.values())
            for link in (*self.links.values(), *self.through.values(), *others):
                link.close()
            self._poller.close()


@asynccontextmanager
async def open_namespaces(nodes: Iterable[int], seed: int, further_ports: Iterable[str] = ()) -> AsyncIterator[Site]:
    """Open a namespace for each node, and one for clients, with the calling thread in it. Raises `NoNamespaces`."""
    ids, further = tuple(nodes), {name: PORT + 1 + at for at, name in enumerate(further_ports)}
    async with contextlib.AsyncExitStack() as stack:
        namespaces = {port: _hold(stack, new_namespace()) for port in (CLIENTS, *ids)}
        with contextlib.ExitStack() as lent:  # the switch has its own copies
            taps = {
                port: _hold(lent, open_tap(namespace, port, [other for other in namespaces if other != port]))
                for port, namespace in namespaces.items()
            }
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(ours)
            lent.enter_context(theirs)
            stack.enter_context(_switch_process(seed, theirs.fileno(), taps))
        stack.enter_context(inside(namespaces[CLIENTS]))
        way_in = _WayIn({node: namespaces[node] for node in ids}, further)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(way_in.serve)
            try:
                yield _site(SwitchedNetwork(ours), way_in, {node: namespaces[node] for node in ids}, further)
            finally:
                nursery.cancel_scope.cancel()


def _site(
    wires: SwitchedNetwork, way_in: _WayIn, namespaces: Mapping[int, int], further_ports: Mapping[str, int]
) -> Site:
    ids = tuple(namespaces)
    there = {node: (ip_address(node), PORT) for node in ids}
    enters: dict[int, Callable[[], None]] = {
        node: functools.partial(enter, namespace) for node, namespace in namespaces.items()
    }
    return Site(
        wires=wires,
        listen=dict.fromkeys(ids, (ANY_HOST, PORT)),
        peers={(one, other): there[other] for one in ids for other in ids if one != other},
        clients=there,
        advertised=there,
        direct={node: (LOOPBACK, link.port) for node, link in way_in.links.items()},
        through={pair: (LOOPBACK, link.port) for pair, link in way_in.through.items()},
        enter=enters,
        further={
            name: FurtherPorts(
                listen=dict.fromkeys(ids, (ANY_HOST, port)),
                peers={(one, other): (ip_address(other), port) for one in ids for other in ids if one != other},
                direct={node: (LOOPBACK, link.port) for node, link in way_in.further[name].items()},
            )
            for name, port in further_ports.items()
        },
    )


def _hold(stack: "contextlib.ExitStack | contextlib.AsyncExitStack", descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


@contextmanager
def _switch_process(seed: int, requests: int, taps: Mapping[int, int]) -> Iterator[None]:
    command = [sys.executable, "-m", "jepsen_like.cluster.switch_process", str(seed), str(requests)]
    command += [f"{port}={tap}" for port, tap in taps.items()]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        pass_fds=(requests, *taps.values()),
        process_group=0,
        preexec_fn=die_with_parent(),
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()
