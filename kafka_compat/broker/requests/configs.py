"""Settings of topics, brokers and groups: DescribeConfigs, IncrementalAlterConfigs and AlterConfigs.

A broker describes itself, including its own command line. Ask another broker for its settings directly, as in Kafka.
"""

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.turns import Steps
from kafka_compat.config import ConfigRow, InvalidSetting, check_dynamic_setting, check_topic_setting
from kafka_compat.config_keys import TOPIC_KEYS, ConfigKind
from kafka_compat.controller.commands import (
    AlterConfigs,
    CommandResult,
    ConfigsAltered,
    ConfigSetting,
    ResourceAltered,
    ResourceChange,
    ResourceKind,
    ResourceName,
)
from kafka_compat.protocol.apis.alter_configs import (
    ALTER_CONFIGS,
    AlterConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from kafka_compat.protocol.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    GROUP_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribedConfig,
    DescribedConfigSynonym,
)
from kafka_compat.protocol.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResult,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.topic_names import is_valid_topic_name
from raft.net.handlers import serves

SET, DELETE, APPEND, SUBTRACT = range(4)
LISTS = frozenset(name for name, key in TOPIC_KEYS.items() if key.kind is ConfigKind.LIST)
ROWS_MAX = 200_000
"""Settings in one answer of DescribeConfigs."""


class ConfigRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # ---------------------------------------------------------------- DescribeConfigs

    @serves(DESCRIBE_CONFIGS.key)
    def describe(self, call: ClientCall) -> None:
        """Answer with the settings of topics and of this broker."""
        self._context.turns.run(call, self._describe(call, call.request))

    def _describe(self, call: ClientCall, request: DescribeConfigsRequest) -> Steps:
        results: list[DescribeConfigsResult] = []
        rows = 0
        for asked in request.resources:
            if rows < ROWS_MAX:
                results.append(self._describe_resource(asked, request))
                rows += len(results[-1].configs)
            else:
                refused = f"one answer has at most {ROWS_MAX} settings: describe the rest in another request"
                results.append(_describe_as(asked, KafkaErrorCode.INVALID_REQUEST, refused))
            yield 1 + len(results[-1].configs)
        response = DescribeConfigsResponse(results=tuple(results))
        self._context.turns.answer(call, response, len(results) + rows)

    def _describe_resource(
        self, asked: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        found = self._rows(asked)
        if not isinstance(found, list):
            return _describe_as(asked, *found)
        return _describe_as(asked, KafkaErrorCode.NONE, "", tuple(_config(each, request) for each in found))

    def _rows(self, asked: DescribeConfigsResource) -> list[ConfigRow] | tuple[KafkaErrorCode, str]:
        settings = self._context.settings
        name = asked.resource_name
        keys = asked.configuration_keys or None  # none at all are all of them
        if asked.resource_type == ResourceKind.TOPIC:
            topic = self._context.image.topics.get(name)
            if not is_valid_topic_name(name):
                return KafkaErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is no name of a topic"
            if topic is None:
                return KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
            return settings.describe_topic(topic.configs, keys)
        if asked.resource_type == GROUP_RESOURCE:
            return settings.describe_group(keys) if name else (KafkaErrorCode.INVALID_REQUEST, "a group has a name")
        if asked.resource_type != ResourceKind.BROKER:
            return KafkaErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no settings here"
        if not name:
            rows = settings.describe_broker(keys)
            return [each for each in rows if each.name in settings.cluster]
        if name != str(self._context.broker_id):
            return KafkaErrorCode.INVALID_REQUEST, f"this is broker {self._context.broker_id}: ask broker {name} itself"
        return settings.describe_broker(keys)

    # ---------------------------------------------------------------- changes

    @serves(INCREMENTAL_ALTER_CONFIGS.key)
    def alter(self, call: ClientCall) -> None:
        """Make all changes of a resource or none; wrong changes are refused here."""
        self._change_all(call, call.request, replaces=False)

    @serves(ALTER_CONFIGS.key)
    def replace(self, call: ClientCall) -> None:
        """Give each resource the settings of the request and no others, or leave it as it is."""
        self._change_all(call, call.request, replaces=True)

    def _change_all(
        self, call: ClientCall, request: AlterConfigsRequest | IncrementalAlterConfigsRequest, *, replaces: bool
    ) -> None:
        decided: dict[tuple[int, str], IncrementalAlterConfigsResult] = {}
        changes: list[ResourceChange] = []
        for resource in request.resources:
            try:
                if resource.resource_type == GROUP_RESOURCE:
                    self._check_group(resource)
                    decided[_key(resource)] = _build_result(resource, KafkaErrorCode.NONE, "")
                else:
                    changes.append(self._change(resource))
            except InvalidSetting as error:
                code = KafkaErrorCode.INVALID_REQUEST if error.is_request else KafkaErrorCode.INVALID_CONFIG
                decided[_key(resource)] = _build_result(resource, code, str(error))
            except ValueError as error:
                decided[_key(resource)] = _build_result(resource, KafkaErrorCode.INVALID_REQUEST, str(error))

        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, ConfigsAltered):
                altered = result.resources
            else:
                failed = result if isinstance(result, CommandFailed) else CommandFailed("another answer", False)
                altered = tuple(ResourceAltered(each.resource, failed.error, failed.reason) for each in changes)
            outcomes = {(each.resource.kind.value, each.resource.name): (each.error, each.message) for each in altered}
            responses = (
                decided.get(_key(resource)) or _build_result(resource, *outcomes[_key(resource)])
                for resource in request.resources
            )
            response = AlterConfigsResponse if replaces else IncrementalAlterConfigsResponse
            call.answer(response(responses=tuple(responses)))

        if not changes:
            on_result(ConfigsAltered(()))
            return
        command = AlterConfigs(tuple(changes), request.validate_only, self._context.unclean_default, replaces)
        self._context.controller.send(command, on_result)

    def _check_group(self, resource: AlterConfigsResource | IncrementalAlterConfigsResource) -> None:
        """Raises `InvalidSetting` for a setting that would differ from those of all groups, `ValueError` for a wrong request."""
        if not resource.resource_name:
            raise ValueError("a group has a name")
        for change in resource.configs:
            operation = SET if isinstance(change, AlterConfig) else change.config_operation
            if operation not in (SET, DELETE):
                raise InvalidSetting(change.name, f"{change.name} is not a list that can be appended to.")
            value = None if operation == DELETE else change.value
            self._context.settings.check_group_setting(change.name, value)

    def _change(self, resource: AlterConfigsResource | IncrementalAlterConfigsResource) -> ResourceChange:
        """Raises `InvalidSetting` for a wrong setting, `ValueError` for a wrong request."""
        try:
            kind = ResourceKind(resource.resource_type)
        except ValueError:
            raise ValueError(f"resources of type {resource.resource_type} have no settings here") from None
        names = [each.name for each in resource.configs]
        if len(set(names)) < len(names):
            raise ValueError("a setting is named twice")
        name = ResourceName(kind, resource.resource_name)
        return ResourceChange(name, tuple(self._setting(name, each) for each in resource.configs))

    def _setting(self, resource: ResourceName, change: AlterConfig | IncrementalAlterConfig) -> ConfigSetting:
        value = change.value
        operation = SET if isinstance(change, AlterConfig) else change.config_operation
        if operation == DELETE:
            return ConfigSetting(change.name, None)
        if isinstance(change, IncrementalAlterConfig) and operation in (APPEND, SUBTRACT):
            value = self._list_changed(resource, change)
        elif operation != SET:
            raise ValueError(f"there is no operation {operation}")
        elif value is None:
            raise ValueError(f"{change.name} needs a value")
        if resource.kind is ResourceKind.TOPIC:
            return ConfigSetting(change.name, check_topic_setting(change.name, value))
        assert value is not None, "null was refused"
        return ConfigSetting(change.name, check_dynamic_setting(change.name, value))

    def _list_changed(self, resource: ResourceName, change: IncrementalAlterConfig) -> str:
        if resource.kind is not ResourceKind.TOPIC or change.name not in LISTS:
            raise InvalidSetting(change.name, f"{change.name} is not a list that can be appended to.")
        overrides = self._context.image.configs_of(resource)
        (row,) = self._context.settings.describe_topic(overrides, [change.name])
        items = [each for each in (row.value or "").split(",") if each]
        named = [each.strip() for each in (change.value or "").split(",") if each.strip()]
        if change.config_operation == APPEND:
            return ",".join([*items, *(each for each in named if each not in items)])
        return ",".join(each for each in items if each not in named)


def _key(resource: AlterConfigsResource | IncrementalAlterConfigsResource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _describe_as(
    asked: DescribeConfigsResource, error: KafkaErrorCode, message: str, configs: tuple[DescribedConfig, ...] = ()
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=configs,
    )


def _build_result(
    resource: AlterConfigsResource | IncrementalAlterConfigsResource, error: KafkaErrorCode, message: str
) -> IncrementalAlterConfigsResult:
    return IncrementalAlterConfigsResult(
        error_code=error,
        error_message=message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _config(row: ConfigRow, request: DescribeConfigsRequest) -> DescribedConfig:
    synonyms = (
        DescribedConfigSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
        for synonym in row.synonyms
    )
    return DescribedConfig(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.sensitive,
        synonyms=tuple(synonyms) if request.include_synonyms else (),
        config_type=row.kind,
        documentation=row.doc if request.include_documentation else None,
    )
