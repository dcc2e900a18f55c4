"""Fields of requests that are read and ignored, with the reason.

Every other field takes effect, or its request is refused. Pure. A test compares this table with the classes of
`headers` and `bodies`: it fails for a field without a reader that is not listed here.
"""

from collections.abc import Mapping
from typing import Final

_UNITS: Final = "units of a data centre: RocketMQ marks retry topics with it"
WITHOUT_EFFECT: Final[Mapping[str, Mapping[str, str]]] = {
    "SendMessageRequestHeader": {
        "producer_group": "only transactions, and hooks of a broker, ask for it",
        "unit_mode": f"{_UNITS}; a reply passes it on",
        "broker_name": "static topics are not served",
    },
    "ConsumerSendMsgBackRequestHeader": {
        "origin_msg_id": "the stored message has it",
        "origin_topic": "the stored message has it",
        "unit_mode": _UNITS,
    },
    "QueryMessageRequestHeader": {"is_unique_key": "a key is looked up as both kinds, and compared"},
    "GetRouteInfoRequestHeader": {"accept_standard_json_only": "routes are standard JSON for every client"},
    "CreateTopicRequestHeader": {"default_topic": "RocketMQ's broker does not look at it either"},
    "ConsumerData": {"unit_mode": _UNITS},
    "SubscriptionData": {"tags_set": "they follow from `sub_string`", "code_set": "they follow from `sub_string`"},
    "LockBatchRequestBody": {"only_this_broker": "a lock is always that of one broker"},
    "RegisterBrokerBody": {"filter_server_list": "RocketMQ has no filter servers any more"},
    "TopicRouteData": {
        "order_topic_conf": "in the registration of a topic, only its queues count",
        "broker_datas": "in the registration of a topic, only its queues count",
        "filter_server_table": "in the registration of a topic, only its queues count",
    },
    "BrokerData": {"enable_acting_master": "in the registration of a topic, only its queues count"},
    "SubscriptionGroupConfig": {
        "consume_from_min_enable": "kept and shown; RocketMQ's broker does not look at it either",
        "consume_message_orderly": "kept and shown; only POP obeys it",
        "consume_timeout_minute": "kept and shown; consumers have a setting of their own",
        "group_retry_policy": "kept and shown; only POP obeys it",
    },
    "SubscriptionGroupWrapper": {
        "forbidden_table": "of a master that is asked by its slave: topics are not forbidden to groups here"
    },
    "GroupRetryPolicy": {"type": "kept and shown; only POP obeys it"},
}
"""Reasons by class and attribute."""
