"""CreateAcls (30), DescribeAcls (29) and DeleteAcls (31): access control lists (KIP-140), with patterns (KIP-290)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, int8, int16, int32, string

LITERAL = 3


class AclCreation(Message):
    """An ACL to make."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Message):
    """Makes ACLs; one that exists stays."""

    creations: tuple[AclCreation, ...] = array(AclCreation)


class AclCreationResult(Message):
    """The outcome for one ACL."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class CreateAclsResponse(Message):
    """The outcome for each ACL, in the order of the request."""

    throttle_time_ms: int = int32(default=0)
    results: tuple[AclCreationResult, ...] = array(AclCreationResult)


class DescribeAclsRequest(Message):
    """A filter. Null lets every text pass, 1 every number."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=LITERAL)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Message):
    """An ACL of one pattern."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Message):
    """A pattern and its ACLs."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=LITERAL)
    acls: tuple[AclDescription, ...] = array(AclDescription)


class DescribeAclsResponse(Message):
    """The ACLs that match."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: tuple[DescribeAclsResource, ...] = array(DescribeAclsResource)


class DeleteAclsFilter(Message):
    """A filter for ACLs to delete, as in DescribeAcls."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=LITERAL)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Message):
    """Deletes the ACLs that any filter matches."""

    filters: tuple[DeleteAclsFilter, ...] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Message):
    """An ACL that was deleted."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Message):
    """The outcome for one filter."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message):
    """The outcome for each filter, in the order of the request."""

    throttle_time_ms: int = int32(default=0)
    filter_results: tuple[DeleteAclsFilterResult, ...] = array(DeleteAclsFilterResult)


DESCRIBE_ACLS = Api.of(29, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse, versions="1-3", flexible="2+")
CREATE_ACLS = Api.of(30, "CreateAcls", CreateAclsRequest, CreateAclsResponse, versions="1-3", flexible="2+")
DELETE_ACLS = Api.of(31, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse, versions="1-3", flexible="2+")
