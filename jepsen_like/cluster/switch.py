"""A switch that decides about every Ethernet frame of a run: pass, lose, double, damage, hold up, or pass late.

Pure: frames and the time come in, frames go out; the owner of the ports carries them (`switch_process`). Chance comes
from the seed given at the start, one stream a way.

Port 0 is the clients', the others have the numbers of their nodes; the last byte of a hardware address is the port's
number. Nothing but IPv4 between two ports passes: the neighbours are known to everyone from the start.

- A cut drops every packet. TCP sends again, so after the end everything that waited goes through, late.
- Half-open: packets vanish, and connections that lost one are dead from then on: after the end each of their packets is
  answered with RST, as by a peer that came back without its memory. New connections hang, or are refused with RST.
- Reset: RST to both ends of every known connection, and to each end that sends another packet on it.
- Damage turns one bit over. Half of the time the TCP checksum is mended, as by a bad network card, so that the packet
  reaches the process; else the kernel drops it.

A packet on a way without any condition costs one look at a table and a note of the connection it belongs to.
"""

import heapq
import math
import random
import struct
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from jepsen_like.port.wires import CLEAR, CLIENTS, Condition, Evidence, Pair, Route

IPV4: Final = b"\x08\x00"
TCP_IN_IPV4: Final = (0x45, 6)
"""First byte of a header without options, and the number of the protocol within."""
IP_AT, PORTS_AT, TCP_AT, FLAGS_AT, PAYLOAD_AT_MIN = 14, 34, 34, 47, 54
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
CONNECTIONS_MAX: Final = 4096
TORN_MAX: Final = 16_384
"""More are forgotten, and live on if they can."""
QUEUE_S: Final = 0.1
QUEUE_BYTES_MIN: Final = 32 * 1024
"""At most this much waits before a throttled way, in time's worth; more is dropped, as a router does."""
HELD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Over all ways; what comes then is dropped."""

Frame = bytes
Sent = list[tuple[int, Frame]]
"""Frames that leave now, each with its port."""
Flow = bytes
"""Source and destination addresses and ports of a packet, as they stand in it."""


@attrs.define(eq=False)
class _Line:
    """A line that several ways lead over, and share."""

    delay_s: float
    bytes_per_s: float
    free_s: float = 0.0


@attrs.define(eq=False)
class _Way:
    """From one port to another, with a condition, and what it has seen since it had one."""

    rng: random.Random
    condition: Condition = CLEAR
    last_due: float = 0.0
    free_s: float = 0.0
    passed_bytes: int = 0
    packets: dict[str, int] = attrs.Factory(dict)
    line: "_Line | None" = None
    """The line that it always leads over, if any."""

    def count(self, what: str) -> None:
        self.packets[what] = self.packets.get(what, 0) + 1


@attrs.define(eq=False)
class _Struck:
    """A way by the name that people give it, since something was imposed on it."""

    name: str
    ways: tuple[Pair, ...]
    since: float
    condition: Condition = CLEAR
    changes: int = 0
    resets: int = 0


class Switch:
    """All ways between the ports of a run."""

    def __init__(self, seed: int) -> None:
        self.next_due = math.inf
        """The time at which the next held frame is to leave."""
        self._seed = seed
        self._faults = 0
        self._ways: dict[Pair, _Way] = {}
        self._lines: dict[Pair, _Line] = {}
        self._struck: dict[str, _Struck] = {}
        self._headers: dict[Flow, Frame] = {}
        """The last packet of each direction of each connection, without its payload."""
        self._torn: set[Flow] = set()
        """Connections that are dead and do not know it."""
        self._held: list[tuple[float, int, int, Frame, _Way]] = []
        self._held_bytes = 0
        self._number = 0

    # ---------------------------------------------------------------- frames

    def take(self, now: float, source: int, frame: Frame) -> Sent:
        """A frame has come from a port."""
        if frame[0] & 1 or frame[12:14] != IPV4:
            return []
        flow = b""
        if (frame[14], frame[23]) == TCP_IN_IPV4:
            flow = frame[26:38]
            if flow in self._torn:
                if frame[FLAGS_AT] & (SYN | ACK) != SYN:
                    return self._answer_torn(source, frame)
                self._torn -= {flow, opposite(flow)}  # the same numbers, another connection
            if flow not in self._headers and len(self._headers) >= CONNECTIONS_MAX:
                del self._headers[next(iter(self._headers))]
            self._headers[flow] = frame[:PAYLOAD_AT_MIN]
        target = frame[5]
        way = self._ways.get((source, target))
        return [(target, frame)] if way is None else self._through(way, now, source, target, flow, frame)

    def due(self, now: float) -> Sent:
        """Held frames whose time has come."""
        sent: Sent = []
        while self._held and self._held[0][0] <= now:
            _, _, target, frame, way = heapq.heappop(self._held)
            way.passed_bytes += len(frame)
            self._held_bytes -= len(frame)
            sent.append((target, frame))
        self.next_due = self._held[0][0] if self._held else math.inf
        return sent

    def _through(self, way: _Way, now: float, source: int, target: int, flow: Flow, frame: Frame) -> Sent:
        condition, rng = way.condition, way.rng
        if condition.is_cut:
            way.count("packets dropped")
            return []
        if condition.is_swallowing:
            return self._swallow(way, source, flow, frame)
        if condition.loss and rng.random() < condition.loss:
            way.count("packets lost")
            return []
        if condition.corrupt and rng.random() < condition.corrupt:
            frame = self._damage(way, frame)
        copies = [frame]
        if condition.duplicate and rng.random() < condition.duplicate:
            way.count("packets doubled")
            copies.append(frame)
        is_held_up = not condition.reorder
        if condition.reorder and rng.random() < condition.reorder:
            way.count("packets held up")
            is_held_up = True
        if (is_held_up and condition.is_late) or way.line is not None:
            for copy in copies:
                self._hold(way, now, target, copy, condition if is_held_up else CLEAR)
            return []
        way.passed_bytes += sum(map(len, copies))
        return [(target, copy) for copy in copies]

    def _hold(self, way: _Way, now: float, target: int, frame: Frame, condition: Condition) -> None:
        """Let it leave when this condition and the way's line allow."""
        due = now + condition.delay_s + way.rng.uniform(0, condition.jitter_s)
        line = way.line
        narrow: list[tuple[_Way | _Line, float]] = [(way, condition.bytes_per_s)] if condition.bytes_per_s else []
        narrow += [(line, line.bytes_per_s)] if line is not None and line.bytes_per_s else []
        if any((place.free_s - now) * rate > max(QUEUE_BYTES_MIN, QUEUE_S * rate) for place, rate in narrow):
            way.count("packets dropped")
            return
        for place, rate in narrow:
            place.free_s = max(place.free_s, now) + len(frame) / rate
            due = max(due, place.free_s + condition.delay_s)
        due += line.delay_s if line is not None else 0.0
        if not way.condition.reorder:
            due = way.last_due = max(due, way.last_due)
        if self._held_bytes + len(frame) > HELD_BYTES_MAX:
            way.count("packets dropped")
            return
        way.count("packets delayed")
        self._held_bytes += len(frame)
        self._number += 1
        heapq.heappush(self._held, (due, self._number, target, frame, way))
        self.next_due = self._held[0][0]

    def _swallow(self, way: _Way, source: int, flow: Flow, frame: Frame) -> Sent:
        way.count("packets swallowed")
        if not flow:
            return []
        is_dial = frame[FLAGS_AT] & (SYN | ACK) == SYN
        if is_dial and way.condition.refuses:
            way.count("connections refused")
            return [(source, refusal(frame))]
        if not is_dial:
            self._tear({flow, opposite(flow)})
        return []

    def _tear(self, flows: set[Flow]) -> None:
        if len(self._torn) + len(flows) > TORN_MAX:
            self._torn.clear()
        self._torn |= flows

    def _answer_torn(self, source: int, frame: Frame) -> Sent:
        way = self._ways.get((source, frame[5]))
        is_mute = way is not None and (way.condition.is_cut or way.condition.is_swallowing)
        return [] if is_mute or frame[FLAGS_AT] & RST else [(source, refusal(frame))]

    def _damage(self, way: _Way, frame: Frame) -> Frame:
        way.count("packets damaged")
        payload_at = TCP_AT + (frame[TCP_AT + 12] >> 4) * 4 if frame[23] == 6 else len(frame)
        total = IP_AT + int.from_bytes(frame[16:18], "big")
        if payload_at >= total or way.rng.random() < 0.5:
            return _turn(frame, way.rng.randrange(IP_AT, min(total, len(frame))), way.rng.randrange(8))
        way.count("packets damaged past their checksum")
        at = way.rng.randrange(payload_at, total)
        damaged = bytearray(_turn(frame, at, way.rng.randrange(8)))
        word_at = at - (at - TCP_AT) % 2
        old, new = (int.from_bytes(each[word_at : word_at + 2].ljust(2, b"\0"), "big") for each in (frame, damaged))
        checksum = int.from_bytes(frame[TCP_AT + 16 : TCP_AT + 18], "big")
        damaged[TCP_AT + 16 : TCP_AT + 18] = _fold((~checksum & 0xFFFF) + (~old & 0xFFFF) + new).to_bytes(2, "big")
        return bytes(damaged)

    # ---------------------------------------------------------------- what is imposed

    def lay(self, routes: Iterable[Route]) -> None:
        """Let these ways lead over lines, for good. Raises `ValueError` for a line that counts requests, not packets."""
        for route in routes:
            if route.requests_per_s:
                raise ValueError(f"a network of packets counts no requests: {route}")
            line = _Line(route.delay_s, route.bytes_per_s)
            self._lines |= dict.fromkeys(route.ways, line)
        self._clear_ways()

    def _clear_ways(self) -> None:
        """All as they are with nothing imposed: those that lead over lines stay known."""
        self._ways = {pair: self._new_way(pair) for pair in self._lines}

    def _new_way(self, pair: Pair) -> _Way:
        return _Way(random.Random(f"{self._seed} {pair} {self._faults}"), line=self._lines.get(pair))

    def impose(self, now: float, condition: Condition, pairs: Iterable[Pair], clients: Iterable[int]) -> None:
        """Let these ways be so from now on."""
        for struck in self._strike(now, pairs, clients):
            struck.changes += 1
            if condition != CLEAR:
                struck.condition = condition
            for pair in struck.ways:
                self._ways[pair].condition = condition

    def reset(self, now: float, pairs: Iterable[Pair], clients: Iterable[int]) -> tuple[int, Sent]:
        """End every known connection over these ways. Returns how many there were, and the frames that do it."""
        sent: Sent = []
        ended: set[Flow] = set()
        for struck in self._strike(now, pairs, clients):
            flows = [
                flow
                for flow, header in self._headers.items()
                if (header[11], header[5]) in struck.ways and not header[FLAGS_AT] & RST
            ]
            struck.resets += len(flows)
            for flow in flows:
                for direction in {flow, opposite(flow)} - ended:
                    ended.add(direction)
                    header = self._headers.pop(direction, None)
                    if header is not None:
                        sent.append((header[11], refusal(header)))
        self._tear(ended)
        return len({min(flow, opposite(flow)) for flow in ended}), sent

    def heal(self) -> Sent:
        """Make every way clear; the frames that were held leave now, and dead connections are told."""
        sent: Sent = [(target, frame) for _, _, target, frame, _ in sorted(self._held)]
        self._held.clear()
        self._held_bytes = 0
        self.next_due = math.inf
        self._struck.clear()
        self._faults += 1
        self._clear_ways()
        for flow in tuple(self._torn):
            header = self._headers.pop(flow, None)
            if header is not None:
                sent.append((header[11], refusal(header)))
        return sent

    def evidence(self, now: float) -> list[Evidence]:
        """Returns the effects seen on every way on which something was imposed since the last `heal`."""
        return [self._show(struck, now) for struck in self._struck.values()]

    def _show(self, struck: _Struck, now: float) -> Evidence:
        ways = [self._ways[pair] for pair in struck.ways]
        details: dict[str, int] = {}
        for way in ways:
            for what, count in way.packets.items():
                details[what] = details.get(what, 0) + count
        passed = sum(way.passed_bytes for way in ways)
        return Evidence(
            struck.name, struck.condition, now - struck.since, passed, struck.changes, struck.resets, details
        )

    def _strike(self, now: float, pairs: Iterable[Pair], clients: Iterable[int]) -> list[_Struck]:
        found: dict[str, tuple[Pair, ...]] = {
            f"{sender}>{receiver}": ((sender, receiver),) for sender, receiver in pairs
        }
        found |= {f"client>{node}": ((CLIENTS, node), (node, CLIENTS)) for node in clients}
        for name, ways in found.items():
            if name not in self._struck:
                self._struck[name] = _Struck(name, ways, now)
            for pair in ways:
                if pair not in self._ways:
                    self._ways[pair] = self._new_way(pair)
        return [self._struck[name] for name in found]


def opposite(flow: Flow) -> Flow:
    """The other direction of a connection."""
    return flow[4:8] + flow[:4] + flow[10:12] + flow[8:10]


def refusal(frame: Frame) -> Frame:
    """The RST that answers a TCP packet, as a host does that knows nothing of its connection."""
    sequence, acknowledged = struct.unpack_from("!II", frame, TCP_AT + 4)
    flags = frame[FLAGS_AT]
    if flags & ACK:
        answer = struct.pack("!IIBBHHH", acknowledged, 0, 0x50, RST, 0, 0, 0)
    else:
        length = int.from_bytes(frame[16:18], "big") - 20 - (frame[TCP_AT + 12] >> 4) * 4
        after = (sequence + length + bool(flags & SYN) + bool(flags & FIN)) & 0xFFFFFFFF
        answer = struct.pack("!IIBBHHH", 0, after, 0x50, RST | ACK, 0, 0, 0)
    tcp = frame[36:38] + frame[34:36] + answer
    addresses = frame[30:34] + frame[26:30]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0x4000, 64, 6, 0) + addresses
    ip = ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:]
    tcp = tcp[:16] + checksum(addresses + struct.pack("!HH", 6, len(tcp)) + tcp).to_bytes(2, "big") + tcp[18:]
    return frame[6:12] + frame[:6] + IPV4 + ip + tcp


def checksum(data: Sequence[int] | bytes) -> int:
    """The internet checksum of an even number of bytes, or of an odd one with a zero behind."""
    padded = bytes(data) + b"\0" * (len(data) % 2)
    return _fold(sum(struct.unpack(f"!{len(padded) // 2}H", padded)))


def _fold(total: int) -> int:
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _turn(frame: Frame, at: int, bit: int) -> Frame:
    return frame[:at] + bytes([frame[at] ^ 1 << bit]) + frame[at + 1 :]
