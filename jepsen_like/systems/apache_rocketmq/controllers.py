"""Reads what controllers of Apache RocketMQ, and brokers that follow them, answer about masters: epochs and SyncStateSets.

These are the requests of Apache's own administration tools.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from jepsen_like.systems.apache_rocketmq.brokers import body_of
from rocketmq_compat.remoting.frame import Command

CONTROLLER_METADATA: Final = Command(1005)
"""Asks a controller who leads the controllers (CONTROLLER_GET_METADATA_INFO)."""
EPOCHS: Final = Command(1007)
"""Asks a broker for the epochs of its log (GET_BROKER_EPOCH_CACHE)."""
SYNC_STATE_DATA: Final = 1006
NO_EPOCH: Final = 0
"""A log without an epoch had no master yet."""


@attrs.frozen(order=True)
class SyncState:
    """The word of a controller about a group; of two, the greater one is newer."""

    master_epoch: int
    set_epoch: int
    master: str = attrs.field(order=False)
    """The address of the master; empty without any."""
    in_sync: frozenset[str] = attrs.field(order=False)
    """The addresses of the SyncStateSet: brokers from which the next master is chosen."""


def ask_sync_state(groups: Iterable[str]) -> Command:
    """Asks the leader of the controllers for the SyncStateSets of these groups (CONTROLLER_GET_SYNC_STATE_DATA)."""
    return Command(SYNC_STATE_DATA, body=json.dumps(list(groups)).encode())


def leads_controllers(answer: Command) -> bool:
    """Returns True for the leader of the controllers, of its answer to `CONTROLLER_METADATA`. Raises one of `NOT_ANSWERED`."""
    body_of(answer)
    return answer.ext.get("isLeader") == "true"


def sync_states_of(answer: Command) -> Mapping[str, SyncState]:
    """Returns the state of each group, by its name. Raises one of `NOT_ANSWERED`."""
    found: dict[str, Any] = json.loads(body_of(answer))["replicasInfoTable"]
    return {
        group: SyncState(
            master_epoch=int(state["masterEpoch"]),
            set_epoch=int(state["syncStateSetEpoch"]),
            master=state.get("masterAddress") or "",
            in_sync=frozenset(str(replica["brokerAddress"]) for replica in state["inSyncReplicas"]),
        )
        for group, state in found.items()
    }


def epoch_of(answer: Command) -> int:
    """Returns the newest epoch of a broker's log, of its answer to `EPOCHS`. Raises one of `NOT_ANSWERED`."""
    return max((int(entry["epoch"]) for entry in json.loads(body_of(answer))["epochList"]), default=NO_EPOCH)
