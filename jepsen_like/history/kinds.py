"""Kinds of files that are told apart by how they begin, so that one that is no history is named as what it is."""

from typing import Final

HEAD_BYTES: Final = 512
TAR_AT: Final = 257
GZIP: Final = b"\x1f\x8b"
PARQUET: Final = b"PAR1"
MAPS: Final = (b"{", b"[", b";", b"#")
"""The first bytes of operation maps."""
FOREIGN: Final = (
    (b"PK\x03\x04", "is a zip archive: unpack it and name the history in it"),
    (PARQUET, "is a Parquet file: name it with the suffix .parquet if it is a history of ours"),
    (b"JEPSEN", "is Jepsen's binary format, not text: name history.edn of the same test"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: decompress it (zstd -d)"),
    (b"BZh", "is compressed with bzip2: decompress it (bunzip2)"),
    (b"\xfd7zXZ\x00", "is compressed with xz: decompress it (unxz)"),
    (b"\x04\x22\x4d\x18", "is compressed with lz4: decompress it (lz4 -d)"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive: unpack it and name the history in it"),
    (b"ARROW1", "is an Arrow file, which is not read"),
    (b"\xff\xfe", "is text in UTF-16: convert it (iconv -f UTF-16 -t UTF-8)"),
    (b"\xfe\xff", "is text in UTF-16: convert it (iconv -f UTF-16 -t UTF-8)"),
)
"""The first bytes of files that are no operation maps, the kind of each, and advice."""


def foreign(head: bytes) -> str | None:
    """Returns what a file is that begins so, and what to do with it; None if it may be text."""
    for magic, reason in FOREIGN:
        if head.startswith(magic):
            return reason
    if head[TAR_AT:].startswith(b"ustar"):
        return "is a tar archive: unpack it and name the history in it"
    zeros = head.count(0)
    if zeros and zeros * 3 >= len(head):
        return "is text in UTF-16 or UTF-32: convert it to UTF-8 (iconv)"
    return "is a binary file, not text" if zeros else None


def kind_of(head: bytes) -> str | None:
    """Returns what a file is that should be of Parquet, and what to do with it; None if that cannot be seen."""
    if head.startswith(GZIP):
        return "is compressed with gzip: decompress it (gunzip)"
    if head.lstrip().startswith(MAPS):
        return "looks like operation maps, not Parquet: name it with the suffix .edn, .json or .jsonl"
    return foreign(head)
