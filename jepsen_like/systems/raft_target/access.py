"""The way to the nodes of a raft group that others run: named as `quorumlog append` names its options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import attrs

from jepsen_like.port.port import Access, RunningCluster
from jepsen_like.port.wires import Address
from jepsen_like.systems.raft.clients import RaftClients
from jepsen_like.systems.target.properties import certificates_of, properties_of, switch_in, wrong_file
from raft.net.certificates import Certificates, TlsFiles
from raft.secret_file import UnusableSecret

FILES: Final = ("tls-authority", "tls-certificate", "tls-key")
KNOWN: Final = ("cluster-id", "secret-file", "tls", *FILES)
CLUSTER_ID: Final = "quorumlog"
"""That of the operator's commands."""


@attrs.frozen
class RaftAccess:
    """The name of a group, and how connections with its nodes begin."""

    cluster_id: str = CLUSTER_ID
    secret: Path | None = None
    tls: Certificates | None = None

    @classmethod
    def of(cls, target: RunningCluster) -> Self:
        """Returns what the file of a target gives. Raises `WrongMode`."""
        given = properties_of(target, KNOWN)
        speaks_tls = switch_in(given, "tls") or any(name in given for name in FILES)
        authority, certificate, key = (given.get(name) for name in FILES)
        files = TlsFiles(authority=authority, certificate=certificate, key=key)
        access = cls(
            given.get("cluster-id", CLUSTER_ID),
            Path(given["secret-file"]) if "secret-file" in given else None,
            certificates_of(files) if speaks_tls else None,
        )
        access.clients({})
        return access

    def clients(self, addresses: Mapping[int, Address]) -> RaftClients:
        """Returns what connects clients with these nodes. Raises `WrongMode`."""
        try:
            return RaftClients(addresses, Access(self.cluster_id, secret=self.secret), tls=self.tls)
        except UnusableSecret as error:
            raise wrong_file(error) from None
