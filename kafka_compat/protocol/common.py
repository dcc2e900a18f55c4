"""Messages that several APIs nest: where a partition's leader is (KIP-951)."""

from kafka_compat.protocol.schema import Message, int32, string


class LeaderIdAndEpoch(Message):
    """The leader of a partition, to the answering broker's knowledge; -1 is unknown."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class NodeEndpoint(Message):
    """The address at which clients reach a broker that leads a partition of the request."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
