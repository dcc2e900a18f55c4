"""Administration of access control lists: CreateAcls, DescribeAcls and DeleteAcls.

Without an authorizer they are refused, because ACLs that have no effect would be a false promise.
"""

import enum
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from kafka_compat.acls import Acl, AclFilter, PatternType, Permission, ResourceType, problem_of
from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.controller.commands import (
    AclCreated,
    AclsCreated,
    AclsDeleted,
    AclsMatched,
    CommandResult,
    CreateAcls,
    DeleteAcls,
)
from kafka_compat.protocol.apis.acls import (
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.handlers import serves

NO_AUTHORIZER = "No Authorizer is configured."
UNKNOWN_PARTS = "The filter has UNKNOWN parts."
EnumT = TypeVar("EnumT", bound=enum.IntEnum)


class AclRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @serves(CREATE_ACLS.key)
    def create(self, call: ClientCall) -> None:
        """Make ACLs; wrong ones are refused here, and one that exists stays."""
        request: CreateAclsRequest = call.request
        if call.access is None:
            self._answer_created(
                call, [AclCreated(KafkaErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)] * len(request.creations)
            )
            return
        acls = [_acl(each) for each in request.creations]
        problems = [problem_of(each) for each in acls]
        wanted = tuple(acl for acl, problem in zip(acls, problems, strict=True) if problem is None)

        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, AclsCreated):
                outcomes = iter(result.results)
            else:
                outcomes = iter([AclCreated(*_failure(result))] * len(wanted))
            self._answer_created(
                call,
                [
                    next(outcomes) if problem is None else AclCreated(KafkaErrorCode.INVALID_REQUEST, problem)
                    for problem in problems
                ],
            )

        if wanted:
            self._context.controller.send(CreateAcls(wanted), on_result)
        else:
            on_result(AclsCreated(()))

    @staticmethod
    def _answer_created(call: ClientCall, outcomes: list[AclCreated]) -> None:
        results = (AclCreationResult(error_code=each.error, error_message=each.message or None) for each in outcomes)
        call.answer(CreateAclsResponse(results=tuple(results)))

    @serves(DESCRIBE_ACLS.key)
    def describe(self, call: ClientCall) -> None:
        """Answer with the ACLs that the filter matches, by resource."""
        request: DescribeAclsRequest = call.request
        wanted = _filter(request)
        if call.access is None:
            error, message = KafkaErrorCode.SECURITY_DISABLED, NO_AUTHORIZER
        elif wanted.has_unknown:
            error, message = KafkaErrorCode.INVALID_REQUEST, UNKNOWN_PARTS
        else:
            found = self._context.image.acls.select(wanted)
            resources = tuple(
                _describe(list(acls)) for _, acls in groupby(found, attrgetter("kind", "name", "pattern"))
            )
            response = DescribeAclsResponse(error_code=KafkaErrorCode.NONE, error_message=None, resources=resources)
            self._context.turns.answer(call, response, len(found))
            return
        call.answer(DescribeAclsResponse(error_code=error, error_message=message, resources=()))

    @serves(DELETE_ACLS.key)
    def delete(self, call: ClientCall) -> None:
        """Delete the ACLs that the filters match, and answer with them."""
        request: DeleteAclsRequest = call.request

        def answer(outcomes: tuple[AclsMatched, ...]) -> None:
            response = DeleteAclsResponse(filter_results=tuple(map(_describe_matches, outcomes)))
            self._context.turns.answer(call, response, sum(1 + len(each.acls) for each in outcomes))

        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, AclsDeleted):
                answer(result.results)
            else:
                error, message = _failure(result)
                answer((AclsMatched(error=error, message=message),) * len(request.filters))

        if call.access is None:
            refused = AclsMatched(error=KafkaErrorCode.SECURITY_DISABLED, message=NO_AUTHORIZER)
            answer((refused,) * len(request.filters))
        elif not request.filters:
            answer(())
        else:
            self._context.controller.send(DeleteAcls(tuple(map(_filter, request.filters))), on_result)


def _failure(result: CommandResult | CommandFailed) -> tuple[KafkaErrorCode, str]:
    failed = result if isinstance(result, CommandFailed) else CommandFailed("the controller sent another answer", False)
    return failed.error, failed.reason


def _member(kind: type[EnumT], number: int) -> EnumT:
    """Returns the member with this number, or UNKNOWN (0), as Kafka reads it."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def _acl(creation: AclCreation) -> Acl:
    return Acl(
        _member(ResourceType, creation.resource_type),
        creation.resource_name,
        _member(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _member(AclOperation, creation.operation),
        _member(Permission, creation.permission_type),
    )


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _member(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        _member(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        _member(AclOperation, asked.operation),
        _member(Permission, asked.permission_type),
    )


def _describe(acls: list[Acl]) -> DescribeAclsResource:
    first = acls[0]
    return DescribeAclsResource(
        resource_type=first.kind,
        resource_name=first.name,
        pattern_type=first.pattern,
        acls=tuple(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
            for acl in acls
        ),
    )


def _describe_matches(outcome: AclsMatched) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=outcome.error,
        error_message=outcome.message or None,
        matching_acls=tuple(
            DeleteAclsMatchingAcl(
                error_code=KafkaErrorCode.NONE,
                error_message=None,
                resource_type=acl.kind,
                resource_name=acl.name,
                pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in outcome.acls
        ),
    )
