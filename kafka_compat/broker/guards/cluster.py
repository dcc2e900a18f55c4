"""Guards of the APIs about the cluster: settings, elections, directories, producer ids, ACLs, and those of brokers."""

from collections.abc import Callable
from typing import Any

from kafka_compat.acls import ResourceType
from kafka_compat.broker.access import Access
from kafka_compat.broker.guards.admission import (
    CLUSTER_FAILED,
    GROUP_FAILED,
    TOPIC_FAILED,
    TRANSACTION_FAILED,
    Admission,
    Admitted,
    Denied,
    Guard,
    admit_some,
    appending,
)
from kafka_compat.broker.guards.topics import operations_on_cluster
from kafka_compat.controller.commands import ResourceKind
from kafka_compat.protocol.apis.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafka_compat.protocol.apis.alter_configs import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse
from kafka_compat.protocol.apis.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuota,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafka_compat.protocol.apis.controller import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ControllerCommandRequest,
    ControllerCommandResponse,
)
from kafka_compat.protocol.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka_compat.protocol.apis.describe_configs import (
    GROUP_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_compat.protocol.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafka_compat.protocol.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kafka_compat.protocol.apis.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)
from kafka_compat.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResult,
)
from kafka_compat.protocol.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_compat.protocol.apis.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kafka_compat.protocol.apis.partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka_compat.protocol.apis.scram_credentials import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kafka_compat.protocol.apis.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kafka_compat.protocol.apis.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve

CLUSTER, TOPIC, GROUP = ResourceType.CLUSTER, ResourceType.TOPIC, ResourceType.GROUP
REFUSAL = "Cluster authorization failed."


def admit_all(access: Access, version: int, request: Any) -> Admission:
    """Everyone may: ApiVersions, and what its handler judges itself."""
    return Admitted(request)


def _on_cluster(operation: AclOperation, refuse: Callable[[Any], Any]) -> Guard:
    """Returns the guard of an API that needs an operation on the cluster; `refuse` makes its refusal."""

    def guard(access: Access, version: int, request: Any) -> Admission:
        return Admitted(request) if access.may(operation, CLUSTER) else Denied(refuse(request))

    return guard


# -------------------------------------------------------------------- settings


def _split_resources(
    access: Access, resources: tuple[Any, ...], operation: AclOperation
) -> tuple[tuple[Any, ...], list[tuple[Any, KafkaErrorCode]]]:
    """Returns the resources whose settings the caller may look at or alter, and the others, each with its error."""
    allowed: list[Any] = []
    denied: list[tuple[Any, KafkaErrorCode]] = []
    for resource in resources:
        if resource.resource_type == ResourceKind.TOPIC:
            may, error = access.may(operation, TOPIC, resource.resource_name), TOPIC_FAILED
        elif resource.resource_type == GROUP_RESOURCE:
            may, error = access.may(operation, GROUP, resource.resource_name), GROUP_FAILED
        else:
            may, error = access.may(operation, CLUSTER), CLUSTER_FAILED
        if may:
            allowed.append(resource)
        else:
            denied.append((resource, error))
    return tuple(allowed), denied


def guard_describe_configs(access: Access, version: int, request: DescribeConfigsRequest) -> Admission:
    """DESCRIBE_CONFIGS on each topic and group, and on the cluster for brokers."""
    allowed, denied = _split_resources(access, request.resources, AclOperation.DESCRIBE_CONFIGS)

    def refuse(resource: DescribeConfigsResource, error: KafkaErrorCode) -> DescribeConfigsResult:
        return DescribeConfigsResult(
            error_code=error,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )

    merge = appending("results", tuple(refuse(*each) for each in denied))
    return admit_some(request, "resources", (allowed, tuple(denied)), merge, DescribeConfigsResponse(results=()))


def guard_alter_configs(
    access: Access, version: int, request: AlterConfigsRequest | IncrementalAlterConfigsRequest
) -> Admission:
    """ALTER_CONFIGS on each topic and group, and on the cluster for brokers."""
    allowed, denied = _split_resources(access, request.resources, AclOperation.ALTER_CONFIGS)

    def refuse(
        resource: AlterConfigsResource | IncrementalAlterConfigsResource, error: KafkaErrorCode
    ) -> IncrementalAlterConfigsResult:
        return IncrementalAlterConfigsResult(
            error_code=error,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    merge = appending("responses", tuple(refuse(*each) for each in denied))
    replaces = isinstance(request, AlterConfigsRequest)
    nothing = (AlterConfigsResponse if replaces else IncrementalAlterConfigsResponse)(responses=())
    return admit_some(request, "resources", (allowed, tuple(denied)), merge, nothing)


# -------------------------------------------------------------------- the cluster


def guard_describe_cluster(access: Access, version: int, request: DescribeClusterRequest) -> Admission:
    """Everyone may know the brokers; the operations are told to those who may DESCRIBE the cluster."""
    if not request.include_cluster_authorized_operations:
        return Admitted(request)

    def complete(response: DescribeClusterResponse) -> DescribeClusterResponse:
        told = response.cluster_authorized_operations
        return evolve(response, cluster_authorized_operations=operations_on_cluster(access, told))

    return Admitted(request, complete)


def _refuse_log_dirs(request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=CLUSTER_FAILED, results=())


def _refuse_election(request: ElectLeadersRequest) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=CLUSTER_FAILED,
        replica_election_results=tuple(
            ElectLeadersTopicResult(
                topic=topic.topic,
                partition_result=tuple(
                    ElectLeadersPartitionResult(partition_id=number, error_code=CLUSTER_FAILED, error_message=REFUSAL)
                    for number in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def _refuse_alter_reassignments(request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=CLUSTER_FAILED, error_message=REFUSAL, responses=())


def _refuse_list_reassignments(request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=CLUSTER_FAILED, error_message=REFUSAL, topics=())


guard_log_dirs = _on_cluster(AclOperation.DESCRIBE, _refuse_log_dirs)
guard_elect_leaders = _on_cluster(AclOperation.ALTER, _refuse_election)
guard_alter_reassignments = _on_cluster(AclOperation.ALTER, _refuse_alter_reassignments)
guard_list_reassignments = _on_cluster(AclOperation.DESCRIBE, _refuse_list_reassignments)


def guard_init_producer_id(access: Access, version: int, request: InitProducerIdRequest) -> Admission:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679)."""
    identity = request.transactional_id
    if identity is not None:
        may, error = access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, identity), TRANSACTION_FAILED
    else:
        some = access.may_some(AclOperation.WRITE, TOPIC)
        may, error = some or access.may(AclOperation.IDEMPOTENT_WRITE, CLUSTER), CLUSTER_FAILED
    return Admitted(request) if may else Denied(InitProducerIdResponse(error_code=error, producer_epoch=-1))


# -------------------------------------------------------------------- ACLs


def _refuse_create_acls(request: CreateAclsRequest) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=CLUSTER_FAILED, error_message=REFUSAL)
    return CreateAclsResponse(results=(refused,) * len(request.creations))


def _refuse_describe_acls(request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=CLUSTER_FAILED, error_message=REFUSAL, resources=())


def _refuse_delete_acls(request: DeleteAclsRequest) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=CLUSTER_FAILED, error_message=REFUSAL, matching_acls=())
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))


guard_create_acls = _on_cluster(AclOperation.ALTER, _refuse_create_acls)
guard_describe_acls = _on_cluster(AclOperation.DESCRIBE, _refuse_describe_acls)
guard_delete_acls = _on_cluster(AclOperation.ALTER, _refuse_delete_acls)


# -------------------------------------------------------------------- users


def _refuse_describe_users(request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=CLUSTER_FAILED, error_message=REFUSAL, results=())


def _refuse_alter_users(request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=tuple(AlteredUser(user=user, error_code=CLUSTER_FAILED, error_message=REFUSAL) for user in users)
    )


guard_describe_users = _on_cluster(AclOperation.DESCRIBE, _refuse_describe_users)
guard_alter_users = _on_cluster(AclOperation.ALTER, _refuse_alter_users)


# -------------------------------------------------------------------- quotas, the quorum, what has settings


def _refuse_describe_quotas(request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=CLUSTER_FAILED, error_message=REFUSAL, entries=None)


def _refuse_alter_quotas(request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=tuple(
            AlteredQuota(error_code=CLUSTER_FAILED, error_message=REFUSAL, entity=each.entity)
            for each in request.entries
        )
    )


def _refuse_quorum(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=CLUSTER_FAILED, error_message=REFUSAL)


def _refuse_list_resources(request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=CLUSTER_FAILED)


def _refuse_unregister(request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=CLUSTER_FAILED, error_message=REFUSAL)


def _refuse_features(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=CLUSTER_FAILED, error_message=REFUSAL)


guard_unregister = _on_cluster(AclOperation.ALTER, _refuse_unregister)
guard_features = _on_cluster(AclOperation.ALTER, _refuse_features)
guard_describe_quotas = _on_cluster(AclOperation.DESCRIBE_CONFIGS, _refuse_describe_quotas)
guard_alter_quotas = _on_cluster(AclOperation.ALTER_CONFIGS, _refuse_alter_quotas)
guard_quorum = _on_cluster(AclOperation.DESCRIBE, _refuse_quorum)
guard_list_resources = _on_cluster(AclOperation.DESCRIBE_CONFIGS, _refuse_list_resources)


# -------------------------------------------------------------------- brokers


def _refuse_command(request: ControllerCommandRequest) -> ControllerCommandResponse:
    return ControllerCommandResponse(error_code=CLUSTER_FAILED)


def _refuse_heartbeat(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=CLUSTER_FAILED)


guard_command = _on_cluster(AclOperation.CLUSTER_ACTION, _refuse_command)
guard_heartbeat = _on_cluster(AclOperation.CLUSTER_ACTION, _refuse_heartbeat)
