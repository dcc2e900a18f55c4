"""Small message stores for simulated brokers, and what faults do to their files."""

import random

from log.config import StoreConfig
from log.memory_disk import MemoryDisk
from rocketmq_compat.storage.broker_store import COMMIT_LOG_NAME, MessageStoreConfig
from rocketmq_compat.storage.checkpoints import CheckpointName
from rocketmq_compat.storage.copy_notes import COPY_NAME, FILE_BYTES
from rocketmq_compat.storage.derived import DerivedConfig
from rocketmq_compat.storage.key_index import KeyIndexConfig

DIRECTORY = "broker"
NOTES_READ_AT = (32, 4096 + 32, 8192 + 8, 8704 + 8)
"""A byte that counts in each part of the notes of a copy."""


def small_store(segment_bytes: int) -> MessageStoreConfig:
    """Returns sizes with which a short world has several of each file."""
    return MessageStoreConfig(
        log=StoreConfig(segment_bytes_max=segment_bytes, index_interval_bytes=512, open_files_max=8, threads=1),
        derived=DerivedConfig(
            units_per_file=64,
            save_every_bytes=4096,
            open_files_max=8,
            threads=1,
            index=KeyIndexConfig(entries_max=64, span_bytes_max=16384, tables_max=100),
        ),
    )


def remove_part(disk: MemoryDisk, part: str) -> None:
    """Remove a file or a directory of a broker; an empty name stands for all."""
    for path in disk.paths():
        if path.startswith(f"{DIRECTORY}/{part}"):
            disk.remove(path)


def damage_log(disk: MemoryDisk, rng: random.Random) -> None:
    """Flip some bits in a file of the commit log."""
    paths = [path for path in disk.paths() if path.startswith(f"{DIRECTORY}/{COMMIT_LOG_NAME}/")]
    files = [path for path in paths if disk.content(path)]
    if files:
        path = rng.choice(files)
        flip_bits(disk, path, rng)


def flip_bits(disk: MemoryDisk, path: str, rng: random.Random) -> None:
    """Flip three bits of a file."""
    size = len(disk.content(path))
    for _ in range(3):
        if size:
            disk.flip_bit(path, rng.randrange(8 * size))


def damage_notes(disk: MemoryDisk) -> None:
    """Damage the notes of a copy, so that nothing of them can be read."""
    path = f"{DIRECTORY}/{COPY_NAME}"
    if path in disk.paths() and len(disk.content(path)) == FILE_BYTES:
        for at in NOTES_READ_AT:
            disk.flip_bit(path, 8 * at)


def remove_tables(disk: MemoryDisk) -> None:
    """Remove the files of topics, groups and offsets."""
    for name in CheckpointName:
        for file in (name.file, name.journal):
            remove_part(disk, f"config/{file}")
