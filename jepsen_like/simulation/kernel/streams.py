"""Chance in named streams: each concern (a link, a disk, a client, a fault) draws from its own.

So taking one fault away changes nothing that the others draw, and a seed means the same in every process: names are
hashed with BLAKE2, never with `hash()`, which differs from process to process.
"""

import hashlib
import random


def stream(seed: int, name: str) -> random.Random:
    """The stream `name` of `seed`; the same pair always yields the same numbers."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))
