"""The guard of every API, and the way from a handler to a guarded one."""

from collections.abc import Mapping
from typing import Final

import attrs

from kafka_compat.acls import Authorizer, parse_super_users
from kafka_compat.broker.access import Access, Refusals
from kafka_compat.broker.calls import ClientCall, GuardedCall, Handler
from kafka_compat.broker.context import Context
from kafka_compat.broker.guards import cluster, groups, topics, transactions
from kafka_compat.broker.guards.admission import Denied, Guard
from kafka_compat.broker.reporter import Tell
from kafka_compat.config_keys import STANDARD_AUTHORIZER
from kafka_compat.protocol.api import API_VERSIONS_KEY
from kafka_compat.protocol.apis.acls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from kafka_compat.protocol.apis.alter_configs import ALTER_CONFIGS
from kafka_compat.protocol.apis.client_quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from kafka_compat.protocol.apis.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from kafka_compat.protocol.apis.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from kafka_compat.protocol.apis.controller import BROKER_HEARTBEAT, CONTROLLER_COMMAND
from kafka_compat.protocol.apis.create_partitions import CREATE_PARTITIONS
from kafka_compat.protocol.apis.create_topics import CREATE_TOPICS
from kafka_compat.protocol.apis.delete_groups import DELETE_GROUPS
from kafka_compat.protocol.apis.delete_records import DELETE_RECORDS
from kafka_compat.protocol.apis.delete_topics import DELETE_TOPICS
from kafka_compat.protocol.apis.describe_cluster import DESCRIBE_CLUSTER
from kafka_compat.protocol.apis.describe_configs import DESCRIBE_CONFIGS
from kafka_compat.protocol.apis.describe_groups import DESCRIBE_GROUPS
from kafka_compat.protocol.apis.describe_log_dirs import DESCRIBE_LOG_DIRS
from kafka_compat.protocol.apis.describe_quorum import DESCRIBE_QUORUM
from kafka_compat.protocol.apis.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from kafka_compat.protocol.apis.describe_transactions import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)
from kafka_compat.protocol.apis.elect_leaders import ELECT_LEADERS
from kafka_compat.protocol.apis.fetch import FETCH
from kafka_compat.protocol.apis.find_coordinator import FIND_COORDINATOR
from kafka_compat.protocol.apis.heartbeat import HEARTBEAT
from kafka_compat.protocol.apis.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from kafka_compat.protocol.apis.init_producer_id import INIT_PRODUCER_ID
from kafka_compat.protocol.apis.join_group import JOIN_GROUP
from kafka_compat.protocol.apis.leave_group import LEAVE_GROUP
from kafka_compat.protocol.apis.list_config_resources import LIST_CONFIG_RESOURCES
from kafka_compat.protocol.apis.list_groups import LIST_GROUPS
from kafka_compat.protocol.apis.list_offsets import LIST_OFFSETS
from kafka_compat.protocol.apis.metadata import METADATA
from kafka_compat.protocol.apis.offset_commit import OFFSET_COMMIT
from kafka_compat.protocol.apis.offset_delete import OFFSET_DELETE
from kafka_compat.protocol.apis.offset_fetch import OFFSET_FETCH
from kafka_compat.protocol.apis.offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH
from kafka_compat.protocol.apis.partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
)
from kafka_compat.protocol.apis.produce import PRODUCE
from kafka_compat.protocol.apis.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafka_compat.protocol.apis.scram_credentials import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from kafka_compat.protocol.apis.sync_group import SYNC_GROUP
from kafka_compat.protocol.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
)
from kafka_compat.protocol.apis.txn_markers import WRITE_TXN_MARKERS
from kafka_compat.protocol.apis.unregister_broker import UNREGISTER_BROKER
from kafka_compat.protocol.apis.update_features import UPDATE_FEATURES
from raft.net.seldom import Seldom

GUARDS: Final[Mapping[int, Guard]] = {
    PRODUCE.key: topics.guard_produce,
    FETCH.key: cluster.admit_all,  # judges each partition when it is read: sessions outlive a change of the ACLs
    LIST_OFFSETS.key: topics.guard_list_offsets,
    METADATA.key: topics.guard_metadata,
    OFFSET_COMMIT.key: groups.guard_offset_commit,
    OFFSET_FETCH.key: groups.guard_offset_fetch,
    FIND_COORDINATOR.key: groups.guard_find_coordinator,
    JOIN_GROUP.key: groups.guard_member,
    HEARTBEAT.key: groups.guard_member,
    LEAVE_GROUP.key: groups.guard_member,
    SYNC_GROUP.key: groups.guard_member,
    DESCRIBE_GROUPS.key: groups.guard_describe_groups,
    LIST_GROUPS.key: groups.guard_list_groups,
    SASL_HANDSHAKE.key: cluster.admit_all,
    API_VERSIONS_KEY: cluster.admit_all,
    CREATE_TOPICS.key: topics.guard_create_topics,
    DELETE_TOPICS.key: topics.guard_delete_topics,
    DELETE_RECORDS.key: topics.guard_delete_records,
    INIT_PRODUCER_ID.key: cluster.guard_init_producer_id,
    ADD_PARTITIONS_TO_TXN.key: transactions.guard_add_partitions,
    ADD_OFFSETS_TO_TXN.key: transactions.guard_add_offsets,
    END_TXN.key: transactions.guard_end,
    WRITE_TXN_MARKERS.key: transactions.guard_markers,
    TXN_OFFSET_COMMIT.key: transactions.guard_offset_commit,
    OFFSET_FOR_LEADER_EPOCH.key: topics.guard_leader_epochs,
    DESCRIBE_ACLS.key: cluster.guard_describe_acls,
    CREATE_ACLS.key: cluster.guard_create_acls,
    DELETE_ACLS.key: cluster.guard_delete_acls,
    DESCRIBE_CONFIGS.key: cluster.guard_describe_configs,
    DESCRIBE_LOG_DIRS.key: cluster.guard_log_dirs,
    SASL_AUTHENTICATE.key: cluster.admit_all,
    CREATE_PARTITIONS.key: topics.guard_create_partitions,
    DELETE_GROUPS.key: groups.guard_delete_groups,
    ELECT_LEADERS.key: cluster.guard_elect_leaders,
    ALTER_PARTITION_REASSIGNMENTS.key: cluster.guard_alter_reassignments,
    LIST_PARTITION_REASSIGNMENTS.key: cluster.guard_list_reassignments,
    ALTER_CONFIGS.key: cluster.guard_alter_configs,
    INCREMENTAL_ALTER_CONFIGS.key: cluster.guard_alter_configs,
    OFFSET_DELETE.key: groups.guard_offset_delete,
    DESCRIBE_USER_SCRAM_CREDENTIALS.key: cluster.guard_describe_users,
    ALTER_USER_SCRAM_CREDENTIALS.key: cluster.guard_alter_users,
    DESCRIBE_CLUSTER.key: cluster.guard_describe_cluster,
    CONSUMER_GROUP_HEARTBEAT.key: groups.guard_consumer_heartbeat,
    CONSUMER_GROUP_DESCRIBE.key: groups.guard_describe_consumers,
    DESCRIBE_PRODUCERS.key: transactions.guard_producers,
    DESCRIBE_TRANSACTIONS.key: transactions.guard_describe,
    LIST_TRANSACTIONS.key: transactions.guard_list,
    DESCRIBE_TOPIC_PARTITIONS.key: topics.guard_topic_partitions,
    DESCRIBE_CLIENT_QUOTAS.key: cluster.guard_describe_quotas,
    ALTER_CLIENT_QUOTAS.key: cluster.guard_alter_quotas,
    DESCRIBE_QUORUM.key: cluster.guard_quorum,
    LIST_CONFIG_RESOURCES.key: cluster.guard_list_resources,
    UPDATE_FEATURES.key: cluster.guard_features,
    UNREGISTER_BROKER.key: cluster.guard_unregister,
    CONTROLLER_COMMAND.key: cluster.guard_command,
    BROKER_HEARTBEAT.key: cluster.guard_heartbeat,
}


@attrs.define(eq=False)
class Guards:
    """The guards of one broker with an authorizer."""

    context: Context
    authorizer: Authorizer
    refusals: Refusals

    def access_of(self, call: ClientCall) -> Access:
        """Returns the rights of the caller."""
        caller = call.caller
        return Access(
            self.authorizer,
            caller.principal,
            call.client_host[1:],
            caller.member is not None,
            self.context.image,
            self.context.settings,
            self.refusals,
        )

    def guard(self, key: int, handler: Handler) -> Handler:
        """Returns a handler that serves what its guard admits."""
        guard = GUARDS[key]

        def serve(call: ClientCall) -> None:
            access = self.access_of(call)
            admission = guard(access, call.version, call.request)
            if not isinstance(admission, Denied):
                handler(GuardedCall(call, admission.request, access, admission.complete))
            elif admission.closes:
                call.close("the caller is not authorized for a request that has no answer")
            else:
                call.answer(admission.response)

        return serve


def guard_handlers(handlers: Mapping[int, Handler], context: Context, tell: Tell) -> Mapping[int, Handler]:
    """Returns the handlers with their guards if there is an authorizer, else as they are."""
    settings = context.settings
    if settings.text("authorizer.class.name") != STANDARD_AUTHORIZER:
        return handlers
    authorizer = Authorizer(
        context.image.acls,
        parse_super_users(settings.text("super.users") or ""),
        settings.flag("allow.everyone.if.no.acl.found"),
    )
    guards = Guards(context, authorizer, Refusals(tell, Seldom(context.clock)))
    return {key: guards.guard(key, handler) for key, handler in handlers.items()}
