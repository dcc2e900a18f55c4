"""DescribeCluster (60): the brokers of the cluster, and which of them is the controller (KIP-700)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Message):
    """Asks about the cluster. `endpoint_type` 1 means brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+", default=False)


class DescribeClusterBroker(Message):
    """A broker and its address."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+", default=False)


class DescribeClusterResponse(Message):
    """The cluster."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))


DESCRIBE_CLUSTER = Api.of(
    60, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse, versions="0-2", flexible="0+"
)
