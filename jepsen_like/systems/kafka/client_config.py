"""The configuration of a worker's librdkafka client, with the files of TLS as they are when it is made.

librdkafka reads them once. A worker whose files have changed therefore makes a new client, as an operator starts a
program again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jepsen_like.systems.kafka.worker_plan import WorkerPlan
from raft.net.watched_files import WatchedFiles


def security_config(authority: str, keystore: str) -> dict[str, Any]:
    """Returns the settings with which librdkafka speaks TLS by these files, as they are now."""
    pem = Path(keystore).read_text(encoding="ascii")
    return {"security.protocol": "SSL", "ssl.ca.location": authority, "ssl.certificate.pem": pem, "ssl.key.pem": pem}


class ClientConfig:
    """The configuration of one worker's clients."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan
        self._watched = WatchedFiles(name for name in (plan.authority, plan.keystore) if name is not None)

    @property
    def is_outdated(self) -> bool:
        """Returns True once for each change of the files."""
        return self._watched.have_changed()

    def now(self) -> dict[str, Any]:
        """Returns the configuration by the files of this moment."""
        return self.secure(self._plan.client)

    def secure(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a configuration of the same worker, with these files."""
        if self._plan.authority is None or self._plan.keystore is None:
            return dict(config)
        return {**config, **security_config(self._plan.authority, self._plan.keystore)}
