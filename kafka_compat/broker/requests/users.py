"""Users and their SCRAM credentials: DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554)."""

from collections import Counter

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.controller.commands import (
    AlterCredentials,
    CommandResult,
    CredentialChange,
    CredentialsAltered,
    UserAltered,
)
from kafka_compat.model import ScramMechanism
from kafka_compat.protocol.apis.scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.sasl.credentials import credential_of
from raft.net.handlers import serves

SALT_BYTES_MAX = 256
_MECHANISMS = frozenset(ScramMechanism)


class UserRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # ---------------------------------------------------------------- DescribeUserScramCredentials

    @serves(DESCRIBE_USER_SCRAM_CREDENTIALS.key)
    def describe(self, call: ClientCall) -> None:
        """Answer with the users that are asked for, or all."""
        request: DescribeUserScramCredentialsRequest = call.request
        known = self._context.image.credentials
        asked = Counter(each.name for each in request.users or ()) or Counter(dict.fromkeys(sorted(known), 1))
        results = tuple(self._describe(user, times) for user, times in asked.items())
        call.answer(DescribeUserScramCredentialsResponse(error_code=KafkaErrorCode.NONE, results=results))

    def _describe(self, user: str, times: int) -> DescribedUser:
        known = self._context.image.credentials.get(user)
        if times > 1:
            detail = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            return DescribedUser(user=user, error_code=KafkaErrorCode.DUPLICATE_RESOURCE, error_message=detail)
        if known is None:
            detail = f"Attempt to describe a user credential that does not exist: {user}"
            return DescribedUser(user=user, error_code=KafkaErrorCode.RESOURCE_NOT_FOUND, error_message=detail)
        infos = (
            ScramCredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            for mechanism, credential in sorted(known.items())
        )
        return DescribedUser(user=user, error_code=KafkaErrorCode.NONE, credential_infos=tuple(infos))

    # ---------------------------------------------------------------- AlterUserScramCredentials

    @serves(ALTER_USER_SCRAM_CREDENTIALS.key)
    def alter(self, call: ClientCall) -> None:
        """Make all changes of a user or none; wrong ones are refused here."""
        request: AlterUserScramCredentialsRequest = call.request
        refused: dict[str, tuple[KafkaErrorCode, str]] = {}
        changes: list[CredentialChange] = []
        items: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...]
        items = (*request.deletions, *request.upsertions)
        for item in items:
            if item.mechanism not in _MECHANISMS:
                refused[item.name] = KafkaErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
                continue
            mechanism = ScramMechanism(item.mechanism)
            if not isinstance(item, ScramCredentialUpsertion):
                changes.append(CredentialChange(item.name, mechanism))
            elif not (item.salt and len(item.salt) <= SALT_BYTES_MAX and item.iterations > 0):
                detail = f"A salt has 1 to {SALT_BYTES_MAX} bytes" if item.iterations > 0 else "Too few iterations"
                refused[item.name] = KafkaErrorCode.UNACCEPTABLE_CREDENTIAL, detail
            else:
                credential = credential_of(mechanism, item.salt, item.salted_password, item.iterations)
                changes.append(CredentialChange(item.name, mechanism, credential))
        names = list(dict.fromkeys(item.name for item in items))
        command = AlterCredentials(tuple(each for each in changes if each.user not in refused))

        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, CredentialsAltered):
                altered = result.users
            else:
                failed = result if isinstance(result, CommandFailed) else CommandFailed("another answer", False)
                altered = tuple(UserAltered(each.user, failed.error, failed.reason) for each in command.changes)
            outcomes = {each.user: (each.error, each.message) for each in altered} | refused
            results = (
                AlteredUser(user=name, error_code=outcomes[name][0], error_message=outcomes[name][1] or None)
                for name in names
            )
            call.answer(AlterUserScramCredentialsResponse(results=tuple(results)))

        if command.changes:
            self._context.controller.send(command, on_result)
        else:
            on_result(CredentialsAltered(()))
