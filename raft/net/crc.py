"""The CRC-32C of bytes whose parts are known: large data is read for it once, wherever it goes from there.

A CRC is linear: behind `count` more bytes a part counts as if it were multiplied by x^(8 * count), modulo the
polynomial, and parts are added by "exclusive or" (zlib's `crc32_combine` does the same for another polynomial; RFC 3720
B.4 defines this one). Subtracting is adding. So the CRC of a rest follows from that of the whole and that of the
beginning:

    joined(crc(a), crc(b), len(b)) == crc(a + b)        joined(crc(a), crc(a + b), len(b)) == crc(b)
"""

import functools
from typing import Final

_POLYNOMIAL: Final = 0x82F63B78
"""Reflected: the highest bit is the coefficient of x^0."""
_ONE: Final = 1 << 31

JOINING_BYTES: Final = 256 * 1024
"""From here on to read data again takes longer than `join_crcs`, which costs the same for any length."""


def join_crcs(first: int, other: int, count: int) -> int:
    """Returns the CRC of a part with CRC `first` followed by `count` bytes with CRC `other`.

    If `other` is the CRC of both parts together, returns that of the `count` bytes alone.
    """
    return _product(_shift(count), first) ^ other


def _product(a: int, b: int) -> int:
    """Of two polynomials over GF(2), modulo that of CRC-32C."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


@functools.lru_cache(maxsize=1024)
def _shift(count: int) -> int:
    """x^(8 * count), modulo the polynomial. Kept, since most large requests are as long as others."""
    power, place = _ONE, 0
    while count:
        if digit := count & 0xFF:
            power = _product(_powers(place)[digit], power)
        count >>= 8
        place += 1
    return power


@functools.cache
def _powers(place: int) -> tuple[int, ...]:
    """x^(8 * digit * 256^place), modulo the polynomial, by digit."""
    step = _ONE >> 8 if place == 0 else _product(_powers(place - 1)[-1], _powers(place - 1)[1])
    powers = [_ONE]
    for _ in range(255):
        powers.append(_product(powers[-1], step))
    return tuple(powers)
