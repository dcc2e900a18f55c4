"""The switch does to packets what its conditions say, and to nothing else."""

import struct

import pytest

from jepsen_like.cluster.switch import (
    ACK,
    FLAGS_AT,
    HELD_BYTES_MAX,
    IP_AT,
    IPV4,
    QUEUE_BYTES_MIN,
    RST,
    SYN,
    TCP_AT,
    Switch,
    checksum,
    refusal,
)
from jepsen_like.port.wires import CLEAR, CLIENTS, CUT, Condition, Evidence, Route

SEED = 7


def frame(
    source: int,
    target: int,
    payload: bytes = b"",
    *,
    flags: int = ACK,
    sequence: int = 100,
    acknowledged: int = 200,
    ports: tuple[int, int] = (5000, 7000),
) -> bytes:
    """A TCP packet from one port of the switch to another, with right checksums."""
    hardware = bytes([2, 0, 0, 0, 0, target, 2, 0, 0, 0, 0, source])
    addresses = bytes([10, 77, 0, source or 254, 10, 77, 0, target or 254])
    head = struct.pack("!HHIIBBH", *ports, sequence, acknowledged, 0x50, flags, 1000)
    pseudo = addresses + struct.pack("!HH", 6, 20 + len(payload))
    summed = checksum(pseudo + head + b"\0\0\0\0" + payload)
    tcp = head + struct.pack("!HH", summed, 0) + payload
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0) + addresses
    return hardware + IPV4 + ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:] + tcp


def is_sound(packet: bytes) -> bool:
    """Returns True if a kernel would take it: both checksums are right."""
    addresses, tcp = packet[26:34], packet[TCP_AT:]
    return checksum(packet[IP_AT:TCP_AT]) == 0 and checksum(addresses + struct.pack("!HH", 6, len(tcp)) + tcp) == 0


def switch_with(condition: Condition) -> Switch:
    """1>2 has the condition, and the clients of 3."""
    switch = Switch(SEED)
    switch.impose(0.0, condition, [(1, 2)], [3])
    return switch


def find_evidence(switch: Switch, way: str, now: float = 1.0) -> Evidence:
    return {each.way: each for each in switch.evidence(now)}[way]


def test_a_clear_way_passes_every_packet_as_it_is() -> None:
    switch, packet = Switch(SEED), frame(1, 2, b"hello")
    assert is_sound(packet)
    assert switch.take(0.0, 1, packet) == [(2, packet)]
    assert switch.evidence(0.0) == []


def test_only_packets_between_two_ports_pass() -> None:
    switch = Switch(SEED)
    assert switch.take(0.0, 1, b"\xff" * 6 + frame(1, 2)[6:]) == []
    assert switch.take(0.0, 1, frame(1, 2)[:12] + b"\x86\xdd" + frame(1, 2)[14:]) == []


def test_a_cut_stops_one_direction_and_both_of_the_clients() -> None:
    switch = switch_with(CUT)
    for source, target, passes in [(1, 2, False), (2, 1, True), (1, 3, True), (CLIENTS, 3, False), (3, CLIENTS, False)]:
        assert bool(switch.take(0.0, source, frame(source, target))) == passes
    assert str(find_evidence(switch, "1>2")) == "cut 1>2: 0 bytes passed in 1.0 s, 1 packets dropped"
    assert find_evidence(switch, "client>3").details == {"packets dropped": 2}
    switch.heal()
    assert switch.take(0.0, 1, frame(1, 2))
    assert switch.evidence(0.0) == []


def test_a_slow_way_keeps_its_order_and_no_packet_comes_early() -> None:
    switch = switch_with(Condition(delay_s=0.01, jitter_s=0.05))
    packets = [frame(1, 2, bytes([number])) for number in range(200)]
    for number, packet in enumerate(packets):
        assert switch.take(number / 1000, 1, packet) == []
    assert switch.due(0.009) == []
    came: list[tuple[int, bytes]] = []
    for tick in range(1000):
        came += switch.due(tick / 1000)
        assert len(came) <= max(0, tick - 9)
    assert came == [(2, packet) for packet in packets]


def test_a_line_delays_what_leads_over_it_with_all_that_is_imposed_and_when_healed() -> None:
    switch, packet = Switch(SEED), frame(1, 2, b"x")
    switch.lay([Route(ways=((1, 2), (CLIENTS, 3)), delay_s=0.01)])
    for condition, due_s in ((CLEAR, 0.01), (Condition(delay_s=0.02), 0.03), (CUT, None), (CLEAR, 0.01)):
        switch.impose(0.0, condition, [(1, 2)], ())
        assert switch.take(0.0, 1, packet) == []
        assert switch.due((due_s or 1.0) - 0.001) == []
        assert switch.due(due_s or 1.0) == ([] if due_s is None else [(2, packet)])
        switch.heal()
    assert switch.take(0.0, CLIENTS, frame(CLIENTS, 3)) == []
    assert switch.take(0.0, 2, frame(2, 1)) == [(1, frame(2, 1))]


def test_ways_over_a_line_share_its_bandwidth() -> None:
    switch = Switch(SEED)
    size = len(frame(1, 3))
    switch.lay([Route(ways=((1, 3), (2, 3)), bytes_per_s=size)])  # a packet a second
    switch.take(0.0, 1, frame(1, 3))
    switch.take(0.0, 2, frame(2, 3))
    assert [len(switch.due(now)) for now in (0.9, 1.0, 1.9, 2.0)] == [0, 1, 0, 1]


def test_what_is_held_leaves_at_once_and_in_order_when_the_way_is_clear() -> None:
    switch = switch_with(Condition(delay_s=600))
    packets = [frame(1, 2, bytes([number])) for number in range(20)]
    for packet in packets:
        switch.take(0.0, 1, packet)
    assert switch.heal() == [(2, packet) for packet in packets]
    assert switch.due(700.0) == []


def test_what_waits_is_bounded() -> None:
    switch = switch_with(Condition(delay_s=600))
    packet = frame(1, 2, bytes(8946))
    for _ in range(HELD_BYTES_MAX // len(packet) + 100):
        switch.take(0.0, 1, packet)
    assert find_evidence(switch, "1>2").details["packets dropped"] == 100
    assert len(switch.heal()) * len(packet) <= HELD_BYTES_MAX
    switch.impose(0.0, Condition(delay_s=600), [(1, 2)], [])
    switch.take(0.0, 1, packet)
    assert find_evidence(switch, "1>2").details == {"packets delayed": 1}


def test_a_throttled_way_passes_so_many_bytes_and_drops_what_its_queue_cannot_hold() -> None:
    rate = 100_000.0
    switch = switch_with(Condition(bytes_per_s=rate))
    packet = frame(1, 2, bytes(946))
    for number in range(1000):  # 1 MB within a second
        assert switch.take(number / 1000, 1, packet) == []
    passed = len(switch.due(1.0)) * len(packet)
    assert 0.95 * rate <= passed <= rate
    waits = len(switch.due(100.0)) * len(packet)
    assert waits <= QUEUE_BYTES_MIN + 2 * len(packet)
    assert find_evidence(switch, "1>2").details["packets dropped"] * len(packet) + passed + waits == 1000 * len(packet)


@pytest.mark.parametrize(
    ("condition", "counted"), [(Condition(loss=0.2), "packets lost"), (Condition(duplicate=0.2), "packets doubled")]
)
def test_loss_and_duplication_are_as_frequent_as_asked_and_the_same_for_a_seed(
    condition: Condition, counted: str
) -> None:
    runs = []
    for _ in range(2):
        switch = switch_with(condition)
        runs.append([len(switch.take(0.0, 1, frame(1, 2))) for _ in range(2000)])
        hit = find_evidence(switch, "1>2").details[counted]
        assert 300 < hit < 500
        assert sum(runs[-1]) == 2000 + (hit if condition.duplicate else -hit)
    assert runs[0] == runs[1]


def test_reordered_packets_are_overtaken_and_arrive() -> None:
    switch = switch_with(Condition(reorder=0.3, delay_s=0.01))
    packets = [frame(1, 2, bytes([number])) for number in range(100)]
    came = [sent for number, packet in enumerate(packets) for sent in switch.take(number / 1000, 1, packet)]
    assert 50 < len(came) < 90
    came += switch.due(1.0)
    assert came != [(2, packet) for packet in packets]
    assert sorted(came) == sorted((2, packet) for packet in packets)


def test_damage_is_one_bit_and_half_of_it_gets_past_the_checksum() -> None:
    switch = switch_with(Condition(corrupt=1.0))
    packet = frame(1, 2, bytes(range(101)))
    past = 0
    for _ in range(500):
        ((_, damaged),) = switch.take(0.0, 1, packet)
        flipped = [at for at, (was, now) in enumerate(zip(packet, damaged, strict=True)) if was != now]
        assert min(flipped) >= IP_AT
        if is_sound(damaged):
            past += 1
            assert sum(at >= TCP_AT + 20 for at in flipped) == 1, "the process would see nothing"
        else:
            assert len(flipped) == 1
    assert 200 < past < 300
    assert find_evidence(switch, "1>2").details["packets damaged past their checksum"] == past


def test_a_refusal_is_what_a_host_without_that_connection_answers() -> None:
    dial = frame(1, 2, flags=SYN, sequence=41)
    answer = refusal(dial)
    assert is_sound(answer)
    assert (answer[:6], answer[6:12]) == (dial[6:12], dial[:6])
    assert (answer[26:30], answer[30:34]) == (dial[30:34], dial[26:30])
    assert struct.unpack_from("!HHIIBB", answer, TCP_AT) == (7000, 5000, 0, 42, 0x50, RST | ACK)
    data = refusal(frame(1, 2, b"data", acknowledged=777))
    assert is_sound(data)
    assert struct.unpack_from("!HHIIBB", data, TCP_AT) == (7000, 5000, 777, 0, 0x50, RST)


@pytest.mark.parametrize("refuses", [False, True])
def test_half_open_kills_the_connections_that_lost_something_and_tells_them_afterwards(refuses: bool) -> None:
    switch = Switch(SEED)
    quiet = frame(1, 2, ports=(5001, 7000))
    switch.take(0.0, 1, quiet)
    switch.impose(0.0, Condition(is_swallowing=True, refuses=refuses), [(1, 2), (2, 1)], [])
    assert switch.take(0.0, 1, frame(1, 2, b"lost")) == []
    answers = switch.take(0.0, 1, frame(1, 2, flags=SYN, ports=(5002, 7000)))
    assert [port for port, _ in answers] == ([1] if refuses else [])
    told = switch.heal()
    assert [(port, packet[FLAGS_AT]) for port, packet in told] == [(1, RST)]
    assert switch.take(0.0, 1, quiet) == [(2, quiet)]
    ((port, packet),) = switch.take(0.0, 2, frame(2, 1, b"who", ports=(7000, 5000)))
    assert (port, packet[FLAGS_AT] & RST) == (2, RST)
    again = frame(1, 2, flags=SYN)
    assert switch.take(0.0, 1, again) == [(2, again)]
    assert switch.take(0.0, 1, frame(1, 2, b"new"))


def test_a_reset_tells_both_ends_and_an_end_that_missed_it() -> None:
    switch = Switch(SEED)
    switch.take(0.0, 1, frame(1, 2, b"x", acknowledged=11))
    switch.take(0.0, 2, frame(2, 1, b"y", acknowledged=22, ports=(7000, 5000)))
    switch.take(0.0, 3, frame(3, 2, b"z"))
    count, sent = switch.reset(0.0, [(1, 2)], [])
    assert count == 1
    ends = {port: struct.unpack_from("!I", packet, TCP_AT + 4)[0] for port, packet in sent}
    assert ends == {1: 11, 2: 22}
    assert find_evidence(switch, "1>2").resets == 1
    ((port, packet),) = switch.take(0.0, 1, frame(1, 2, b"more", acknowledged=15))
    assert (port, struct.unpack_from("!I", packet, TCP_AT + 4)[0]) == (1, 15)
    assert switch.take(0.0, 3, frame(3, 2, b"other connections live"))


def test_flaps_leave_the_last_cut_as_evidence() -> None:
    switch = switch_with(CUT)
    switch.impose(0.5, CLEAR, [(1, 2)], [3])
    assert switch.take(0.6, 1, frame(1, 2))
    switch.impose(0.7, CUT, [(1, 2)], [3])
    assert (find_evidence(switch, "1>2").condition, find_evidence(switch, "1>2").changes) == (CUT, 3)
    assert find_evidence(switch, "1>2").passed_bytes == len(frame(1, 2))
