"""The certificates of a cluster within a test's process."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from jepsen_like.port.port import TlsPaths


@attrs.frozen
class Papers:
    """The files of TLS of each node and of clients; without TLS there are none."""

    nodes: Mapping[int, TlsPaths] = attrs.field(factory=dict)
    client: TlsPaths | None = None


@contextmanager
def papers_of(nodes: Iterable[int], *, tls: bool) -> Iterator[Papers]:
    """Yields the files of a cluster, which are gone at the end of the block; with `tls` false none."""
    if not tls:
        yield Papers()
        return
    from jepsen_like.cluster.authority import certify  # its package is an extra

    with tempfile.TemporaryDirectory(prefix="quorumlog-tls-") as directory:
        yield Papers(*certify(Path(directory), nodes))
