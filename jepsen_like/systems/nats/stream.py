"""The one stream of a run: its name, its configuration, and how it is made."""

import json
from collections.abc import Mapping
from typing import Any, Final

from jepsen_like.systems.nats.clients import NatsConnection, Refused

STREAM: Final = "log"
"""The stream, and the one subject whose messages it keeps."""
API: Final = "$JS.API"
IN_USE: Final = 10058
"""JetStream's code for a stream of this name that exists already."""


def configuration_of(copies: int) -> Mapping[str, Any]:
    """Returns the configuration of the stream, with so many copies."""
    return {
        "name": STREAM,
        "subjects": [STREAM],
        "num_replicas": copies,
        "storage": "file",
        "retention": "limits",
        "allow_direct": True,
    }


async def make_stream(connection: NatsConnection, copies: int) -> None:
    """Make the stream, unless it is there. Raises the errors of `ask_api`."""
    try:
        await connection.ask_api(f"{API}.STREAM.CREATE.{STREAM}", json.dumps(configuration_of(copies)).encode())
    except Refused as error:
        if error.error.get("err_code") != IN_USE:
            raise
