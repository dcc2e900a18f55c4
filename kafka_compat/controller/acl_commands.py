"""Carries out the commands about access control lists (AclControlManager), each ACL and each filter for itself."""

from typing import Final

from kafka_compat.acls import ACLS_MAX, Acl, AclFilter, problem_of
from kafka_compat.controller.changes import ImageChanges
from kafka_compat.controller.commands import AclCreated, AclsCreated, AclsDeleted, AclsMatched, CreateAcls, DeleteAcls
from kafka_compat.protocol.error_codes import KafkaErrorCode

OPEN_FILTERS_MAX: Final = 20
"""Filters of one command that may match several ACLs: each of them is compared with every ACL."""


def create_acls(command: CreateAcls, changes: ImageChanges) -> AclsCreated:
    """Returns the result for each ACL."""
    return AclsCreated(tuple([_create(acl, changes) for acl in command.acls]))


def _create(acl: Acl, changes: ImageChanges) -> AclCreated:
    problem = problem_of(acl)
    if problem is not None:
        return AclCreated(KafkaErrorCode.INVALID_REQUEST, problem)
    if acl in changes.image.acls:
        return AclCreated()
    if len(changes.image.acls) >= ACLS_MAX:
        detail = f"There are {ACLS_MAX} ACLs, which is the most: delete some, or use prefixes and wildcards."
        return AclCreated(KafkaErrorCode.POLICY_VIOLATION, detail)
    changes.add_acl(acl)
    return AclCreated()


def delete_acls(command: DeleteAcls, changes: ImageChanges) -> AclsDeleted:
    """Returns the ACLs that each filter has deleted; those of an earlier filter are gone for a later one."""
    results: list[AclsMatched] = []
    open_filters = 0
    for wanted in command.filters:
        open_filters += wanted.only is None
        results.append(_delete(wanted, changes, open_filters))
    return AclsDeleted(tuple(results))


def _delete(wanted: AclFilter, changes: ImageChanges, open_filters: int) -> AclsMatched:
    if wanted.has_unknown:
        return AclsMatched(error=KafkaErrorCode.INVALID_REQUEST, message="A filter must not have UNKNOWN parts.")
    if wanted.only is None and open_filters > OPEN_FILTERS_MAX:
        detail = (
            f"A request may have {OPEN_FILTERS_MAX} filters that leave something open: send the others in another one."
        )
        return AclsMatched(error=KafkaErrorCode.INVALID_REQUEST, message=detail)
    found = changes.image.acls.select(wanted)
    for acl in found:
        changes.remove_acl(acl)
    return AclsMatched(tuple(found))
