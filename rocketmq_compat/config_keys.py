"""The RocketMQ properties that take effect here, by RocketMQ's own names: type, default, bounds and meaning. Pure.

Sources: BrokerConfig, MessageStoreConfig, NamesrvConfig, NettyServerConfig (4.9.4; properties from 5.x are marked).
Properties that are not RocketMQ's are marked, too. A name of RocketMQ's without effect here is refused, because a
property that is silently ignored is a false promise; see `NOT_HONOURED`.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
KIB: Final = 1024
MIB: Final = 1024 * KIB


class PropertyKind(enum.Enum):
    """The type of a value."""

    BOOLEAN = "true or false"
    NUMBER = "a whole number"
    TEXT = "a text"


@frozen
class PropertyKey:
    """One property. A number lies between `least` and `most`; a text is one of `choices`, unless they are empty.

    `default` is written as a user would write it, or is None.
    """

    name: str
    kind: PropertyKind
    default: str | None
    doc: str
    least: int = 0
    most: int = LONG_MAX
    choices: tuple[str, ...] = ()
    updatable: bool = False
    """True if it may be changed while the process runs (UPDATE_BROKER_CONFIG)."""


def _number(
    name: str, default: int, doc: str, *, least: int = 0, most: int = INT_MAX, updatable: bool = False
) -> PropertyKey:
    return PropertyKey(name, PropertyKind.NUMBER, str(default), doc, least, most, updatable=updatable)


def _flag(name: str, default: str, doc: str, *, updatable: bool = False) -> PropertyKey:
    return PropertyKey(name, PropertyKind.BOOLEAN, default, doc, updatable=updatable)


def _choice(name: str, choices: Sequence[str], doc: str) -> PropertyKey:
    return PropertyKey(name, PropertyKind.TEXT, choices[0], doc, choices=tuple(choices))


def _words(name: str, default: str | None, doc: str, *, updatable: bool = False) -> PropertyKey:
    return PropertyKey(name, PropertyKind.TEXT, default, doc, updatable=updatable)


def _table(*keys: PropertyKey) -> Mapping[str, PropertyKey]:
    table = {each.name: each for each in keys}
    assert len(table) == len(keys), "a property is in the table twice"
    return table


def _names(text: str) -> list[str]:
    return text.split()


ASYNC_MASTER, SYNC_MASTER, SLAVE = "ASYNC_MASTER", "SYNC_MASTER", "SLAVE"
ASYNC_FLUSH, SYNC_FLUSH = "ASYNC_FLUSH", "SYNC_FLUSH"
FLAVOUR_4, FLAVOUR_5 = "4.x", "5.x"
REFUSE, AS_ROCKETMQ = "refuse", "rocketmq"
DURABLE, PAGE_CACHE = "durable", "page-cache"

TLS_PERMISSIVE, TLS_ENFORCING, TLS_DISABLED = "permissive", "enforcing", "disabled"

_TLS: Final = (
    _choice(
        "tls.server.mode",
        (TLS_PERMISSIVE, TLS_ENFORCING, TLS_DISABLED),
        "What the ports take, with a certificate: permissive, TLS and plain text; enforcing, TLS alone; disabled, plain text alone.",
    ),
    _words(
        "tls.server.certPath",
        None,
        "This server's certificate as PEM; looked at again while it runs. Unset: plain text.",
    ),
    _words("tls.server.keyPath", None, "Its key, not encrypted; unset: in the same file."),
    _words("tls.server.trustCertPath", None, "Authorities of clients' certificates; unset: those of the system."),
    PropertyKey(
        "tls.server.need.client.auth",
        PropertyKind.TEXT,
        "none",
        "Whether clients must have a certificate: none, optional or require.",
        choices=("none", "optional", "require"),
    ),
    _flag("tls.enable", "false", "Whether the connections that this process dials speak TLS."),
    _words("tls.client.certPath", None, "The certificate that it shows there, as PEM; unset: none."),
    _words("tls.client.keyPath", None, "Its key; unset: in the same file."),
    _words("tls.client.trustCertPath", None, "Authorities of servers' certificates; unset: those of the system."),
    _flag("tls.client.authServer", "true", "Whether servers need a certificate of these. False in RocketMQ."),
)

_BUDGET: Final = (
    _number(
        "heldBytesMax",
        0,
        "The total of what all connections hold, a quarter of it for brokers; 0: an eighth of the memory, 256 MiB or more. "
        "Not a property of RocketMQ's.",
        most=LONG_MAX,
    ),
    _number(
        "connectionsPerAddressMax",
        INT_MAX,
        "Connections of clients from one address. Not a property of RocketMQ's.",
        least=1,
    ),
    _number(
        "acceptsPerSecond",
        1_000,
        "Connections accepted in a second; more of them wait. Not a property of RocketMQ's.",
        least=1,
    ),
)

BROKER_PROPERTIES: Final = _table(
    # Who and where
    _words("brokerClusterName", "DefaultCluster", "The cluster that the broker registers with."),
    _words("brokerName", "broker-a", "The name that a master and its slaves share."),
    _number("brokerId", 0, "0 is the master of its name; slaves have other ids.", most=LONG_MAX),
    _words("namesrvAddr", None, "Name servers, HOST:PORT, with semicolons between them; unset: none."),
    _words("brokerIP1", None, "The host that clients are sent to; unset: where the broker listens."),
    _words("brokerIP2", None, "The host that slaves are sent to; unset: as brokerIP1."),
    _number("listenPort", 10911, "The port for clients.", most=65535),
    _number("haListenPort", 10912, "The port for slaves.", most=65535),
    _words("storePathRootDir", None, "The directory; unset: that of the option --data."),
    _number("brokerPermission", 6, "4 read, 2 write: what clients may do here.", most=7, updatable=True),
    # Accounts
    _flag("aclEnable", "false", "Whether clients need an account of aclFile for what they do (ACL 1.0)."),
    _words(
        "aclFile",
        None,
        "The file of accounts, in the format of plain_acl.yml; read again when it changes. Not a property of RocketMQ's.",
    ),
    _flag("authenticationEnabled", "false", "Whether clients are users with passwords, made by mqadmin (ACL 2.0)."),
    _flag(
        "authorizationEnabled", "false", "Whether the users' policies decide what they may do; super users may do all."
    ),
    _words(
        "initAuthenticationUser",
        None,
        'The first user, who may do everything: {"username":"...","password":"..."}. Made if there is none of the name.',
    ),
    # Replication
    _choice("brokerRole", (ASYNC_MASTER, SYNC_MASTER, SLAVE), "Whether an acknowledgement waits for slaves."),
    _choice("flushDiskType", (ASYNC_FLUSH, SYNC_FLUSH), "Whether an acknowledgement waits for the disk."),
    _choice(
        "replicationFlavor",
        (FLAVOUR_4, FLAVOUR_5),
        "What SYNC_MASTER waits for. 4.x: one slave; 5.x: inSyncReplicas copies, the master's included. Not a property of RocketMQ's.",
    ),
    _number(
        "totalReplicas",
        1,
        "How many brokers have this name. A master whose disk is another one waits for its slaves, and copies back what they have.",
        least=1,
    ),
    _number("inSyncReplicas", 1, "Copies an acknowledgement waits for (5.x).", least=1, updatable=True),
    _number("minInSyncReplicas", 1, "The least it can be lowered to (5.x).", least=1),
    _number("syncFlushTimeout", 5_000, "How long a send waits for the disk, in ms.", least=1, updatable=True),
    _number("slaveTimeout", 3_000, "How long a send waits for slaves, in ms.", least=1, updatable=True),
    _number(
        "haSlaveFallbehindMax",
        256 * MIB,
        "A slave that is so many bytes behind is no copy to wait for.",
        most=LONG_MAX,
        updatable=True,
    ),
    _number("haTransferBatchSize", 32 * KIB, "Bytes that are sent to a slave at once.", least=KIB),
    _number("haSendHeartbeatInterval", 5_000, "How often an idle HA connection sends a heartbeat, in ms.", least=1),
    _number("haHousekeepingInterval", 20_000, "An HA connection that is silent for so long ends, in ms.", least=1),
    _number(
        "haReconnectInterval",
        5_000,
        "How long a slave waits before it dials again, in ms. A constant in RocketMQ.",
        least=1,
    ),
    _words("haMasterAddress", None, "Where a slave finds its master, HOST:PORT; unset: the name servers tell."),
    _choice(
        "haDivergence",
        (REFUSE, AS_ROCKETMQ),
        "What becomes of a slave that has more than its master. refuse: a master that is short copies it back, and two that differ wait for a "
        "decision; rocketmq: the slave appends other bytes behind its own, as RocketMQ's does. Not a property of RocketMQ's.",
    ),
    _flag("slaveReadEnable", "false", "Whether consumers may pull from a slave.", updatable=True),
    _flag("offsetCheckInSlave", "false", "Whether a slave corrects offsets that it does not hold.", updatable=True),
    _flag("enableDLegerCommitLog", "false", "Whether the brokers of this name are a raft group."),
    _words("dLegerGroup", None, "The raft group; unset: the broker's name."),
    _words("dLegerPeers", None, "Its members: n0-HOST:PORT, with semicolons between them."),
    _words("dLegerSelfId", None, "Which of them this broker is: n0."),
    _number(
        "raftElectionTimeout",
        1_000,
        "How long a silent master of a raft group is trusted, in ms; each broker waits between it and twice as long before it campaigns. "
        "Not a property of RocketMQ's.",
        least=50,
        most=3_600_000,
    ),
    _choice("ack", (DURABLE, PAGE_CACHE), "What a majority of a raft group means. Not a property of RocketMQ's."),
    # The store
    _number("mappedFileSizeCommitLog", 1 << 30, "A file of the commit log ends before it would be longer.", least=4096),
    _number("flushIntervalCommitLog", 500, "How often what is not flushed is flushed, in ms.", least=1),
    _number("fileReservedTime", 72, "How long messages are kept, in hours.", least=1, updatable=True),
    _number("maxMessageSize", 4 * MIB, "The largest body of a message, in bytes.", least=1, updatable=True),
    _words(
        "messageDelayLevel",
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "The delays that messages can have, by level.",
    ),
    _flag("timerWheelEnable", "true", "Whether messages may have a time of their own (5.x).", updatable=True),
    _number(
        "timerMaxDelaySec",
        3 * 24 * 3600,
        "How far ahead that may be, in s (5.x). The log is kept as long as a message in it waits.",
        updatable=True,
    ),
    _number("flushConsumerOffsetInterval", 5_000, "How often offsets of consumers are written, in ms.", least=1),
    _number("cleanResourceInterval", 10_000, "How often old files are looked for, in ms.", least=1),
    # Pulls
    _number(
        "accessMessageInMemoryMaxRatio",
        40,
        "A pull that is further behind than so much of the memory is sent to a slave, in percent.",
        most=100,
    ),
    _number("maxTransferBytesOnMessageInMemory", 256 * KIB, "Bytes of a pull of recent messages.", least=1),
    _number("maxTransferCountOnMessageInMemory", 32, "Messages of such a pull.", least=1),
    _flag("longPollingEnable", "true", "Whether a pull waits for messages as long as it allows."),
    _number("shortPollingTimeMills", 1_000, "How long it waits otherwise, in ms."),
    # Topics and groups
    _flag("autoCreateTopicEnable", "true", "Whether sending to a topic makes it.", updatable=True),
    _number("defaultTopicQueueNums", 8, "The most queues of a topic that is made so.", least=1, updatable=True),
    _flag("autoCreateSubscriptionGroup", "true", "Whether consuming makes a group.", updatable=True),
    _flag("notifyConsumerIdsChangedEnable", "true", "Whether a group's clients are told at once who is in it."),
    _number("serverChannelMaxIdleTimeSeconds", 120, "A connection that is idle for so long is closed, in s.", least=1),
    *_BUDGET,
    _flag("storeReplyMessageEnable", "true", "Whether replies are stored besides being pushed.", updatable=True),
    # Traces
    _words("regionId", "DefaultRegion", "MSG_REGION of every message that is stored.", updatable=True),
    _flag("traceOn", "true", "TRACE_ON of every message that is stored: clients may trace it.", updatable=True),
    _flag("traceTopicEnable", "false", "Whether the broker has the topic of traces from the start."),
    _words("msgTraceTopicName", "RMQ_SYS_TRACE_TOPIC", "The name of that topic."),
    # Registration
    _number("registerNameServerPeriod", 30_000, "How often the broker registers, in ms.", least=1),
    _number("registerBrokerTimeoutMills", 24_000, "How long a registration may take, in ms.", least=1),
    *_TLS,
)
"""Properties of a broker, by name."""

NAMESRV_PROPERTIES: Final = _table(
    _number("listenPort", 9876, "The port.", most=65535),
    _words("kvConfigPath", None, "The file that keeps what administrators store; unset: it is kept in memory."),
    _flag("orderMessageEnable", "false", "Whether routes contain pinned queues of ordered topics.", updatable=True),
    _flag("returnOrderTopicConfigToBroker", "true", "Whether brokers are given these when they register (5.x)."),
    _number("scanNotActiveBrokerInterval", 5_000, "How often silent brokers are looked for, in ms (5.x).", least=1),
    _number(
        "brokerChannelExpiredTime",
        120_000,
        "A broker that does not register for so long is removed, in ms. A constant in RocketMQ.",
        least=1,
    ),
    _number("serverChannelMaxIdleTimeSeconds", 120, "A connection that is idle for so long is closed, in s.", least=1),
    *_BUDGET,
    *_TLS,
)
"""Properties of a name server, by name."""

RENAMED: Final[Mapping[str, str]] = {"mapedFileSizeCommitLog": "mappedFileSizeCommitLog"}
"""Older names, with their present ones."""

_OF_CLIENTS: Final = _names(
    "sendMsgTimeout retryTimesWhenSendFailed retryAnotherBrokerWhenNotStoreOK compressMsgBodyOverHowmuch pollNameServerInterval "
    "heartbeatBrokerInterval persistConsumerOffsetInterval consumeMessageBatchMaxSize pullBatchSize consumeThreadMin consumeThreadMax "
    "instanceName producerGroup consumerGroup sendLatencyFaultEnable"
)
_NOT_HERE: Final = _names(
    "abortFile adminBrokerThreadPoolNums allAckInSyncStateSet autoDeleteUnusedStats autoMessageVersionOnTopicLen bitMapLengthConsumeQueueExt "
    "brokerFastFailureEnable brokerNotActiveTimeoutMillis cleanFileForciblyEnable clientManageThreadPoolNums commercialBaseCount "
    "commercialEnable commitCommitLogLeastPages commitIntervalCommitLog compatibleWithOldNameSrv compressedRegister "
    "consumerFallbehindThreshold consumerManageThreadPoolNums controllerAddr debugLockEnable defaultQueryMaxNum "
    "deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval destroyMapedFileIntervalForcibly disableConsumeIfConsumerReadSlowly "
    "diskFallRecorded diskSpaceCleanForciblyRatio diskSpaceWarningLevelRatio duplicationEnable elaticMappedFileSizeConsumeQueue "
    "enableAutoInSyncReplicas enableCalcFilterBitMap enableConsumeQueueExt enableControllerMode enableElectUncleanMaster "
    "enablePropertyFilter enableSlaveActingMaster enableScheduleMessageStats endTransactionThreadPoolNums expectConsumerNumUseFilter "
    "fastFailIfNoBufferInStorePool fetchNamesrvAddrByAddressServer filterServerNums filterSupportRetry flushCommitLogLeastPages "
    "flushCommitLogThoroughInterval flushCommitLogTimed flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval "
    "flushConsumerOffsetHistoryInterval flushIntervalConsumeQueue flushLeastPagesWhenWarmMapedFile forceRegister fromOffset haMaxGapNotInSync "
    "haMaxTimeSlaveNotCatchup heartbeatThreadPoolNums highSpeedMode isEnableBatchPush lockInStrictMode mappedFileSizeConsumeQueue "
    "mappedFileSizeConsumeQueueExt maxDelayTime maxErrorRateOfBloomFilter maxHashSlotNum maxIndexNum maxMsgsNumBatch maxStatsIdleTimeInMinutes "
    "numbersOfDispatch offsetCheckInterval onlyConsumeFromMaster openMessagePoolSize osPageCacheBusyTimeOutMills "
    "preferredLeaderId processReplyMessageThreadPoolNums pullMessageThreadPoolNums pullThreadPoolQueueCapacity putMsgIndexHightWater "
    "queryMessageThreadPoolNums queryThreadPoolQueueCapacity recheckReputOffsetFromCq redeleteHangedFileInterval rejectPullConsumerEnable "
    "replyThreadPoolQueueCapacity sendMessageThreadPoolNums sendThreadPoolQueueCapacity serverAsyncSemaphoreValue "
    "serverCallbackExecutorThreads serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog "
    "serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads skipPreOnline startAcceptSendRequestTimeStamp "
    "storePathCommitLog storePathConsumeQueue storePathIndex storePathEpochFile storeCheckpoint "
    "supportActingMaster syncBrokerMemberGroupPeriod transferMsgByHeap transientStorePoolEnable "
    "transientStorePoolSize useEpollNativeSelector useReentrantLockWhenPutMessage useTLS waitTimeMillsInHeartbeatQueue "
    "waitTimeMillsInPullQueue waitTimeMillsInSendQueue waitTimeMillsInTransactionQueue warmMapedFileEnable "
    "clusterTest configStorePath productEnvName rocketmqHome tlsEnable tlsTestModeEnable deleteTopicWithBrokerRegistration "
    "deleteWhen diskMaxUsedSpaceRatio messageIndexEnable flushDelayOffsetInterval maxTransferBytesOnMessageInDisk "
    "maxTransferCountOnMessageInDisk clusterTopicEnable brokerTopicEnable rejectTransactionMessage transactionTimeOut transactionCheckMax "
    "transactionCheckInterval minBrokerIdChangeDelay unRegisterBrokerQueueCapacity clientRequestThreadPoolNums defaultThreadPoolNums notifyMinBrokerIdChanged"
)

NOT_HONOURED: Final[Mapping[str, str]] = {
    **dict.fromkeys(_NOT_HERE, "is a property of RocketMQ that quorumlog does not implement"),
    **dict.fromkeys(_OF_CLIENTS, "is a property of producers and consumers, not of brokers or name servers"),
    "storePathCommitLog": "is a property of RocketMQ that quorumlog does not implement: all is under storePathRootDir",
    "enableSlaveActingMaster": "is a property of RocketMQ that quorumlog does not implement: see enableDLegerCommitLog for failover",
    "enableControllerMode": "is a property of RocketMQ that quorumlog does not implement: see enableDLegerCommitLog for failover",
    "transientStorePoolEnable": "is a property of RocketMQ that quorumlog does not implement: messages go to the page cache at once",
}
"""Names that are known and refused, each with the rest of its error message."""
