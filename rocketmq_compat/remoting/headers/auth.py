"""Users and policies (ACL 2.0)."""

from rocketmq_compat.remoting.headers.fields import ExtHeader


class UserRequestHeader(ExtHeader):
    """One user: AUTH_CREATE_USER, AUTH_UPDATE_USER, AUTH_DELETE_USER, AUTH_GET_USER."""

    username: str | None = None


class ListUsersRequestHeader(ExtHeader):
    """The users whose names contain a text, or all: AUTH_LIST_USER."""

    filter: str | None = None


class AclRequestHeader(ExtHeader):
    """The policies of one subject: AUTH_CREATE_ACL, AUTH_UPDATE_ACL, AUTH_GET_ACL."""

    subject: str | None = None


class DeleteAclRequestHeader(ExtHeader):
    """The policies of a subject for one resource, or for all: AUTH_DELETE_ACL."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequestHeader(ExtHeader):
    """The policies whose subject and resource contain these texts: AUTH_LIST_ACL."""

    subject_filter: str | None = None
    resource_filter: str | None = None
