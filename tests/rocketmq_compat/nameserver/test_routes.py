"""The route table: one test a rule, and a state machine against a model that is kept as a plain list of brokers."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketmq_compat.nameserver.events import (
    BrokerAppeared,
    BrokerBeat,
    BrokerConnectionLost,
    BrokerIdentity,
    BrokerRegistered,
    BrokerRemoved,
    BrokerUnregistered,
    CloseBrokerConnection,
    DataVersionCompared,
    DataVersionQuery,
    KvChanged,
    KvDeletion,
    KvPut,
    KvRefused,
    NamesrvEffect,
    NamesrvEvent,
    RegistrationAccepted,
    RegistrationRefused,
    RegistrationTimePassed,
    TopicDeletion,
    TopicRegistered,
    TopicsChanged,
    WritePermChange,
)
from rocketmq_compat.nameserver.routes import ORDER_TOPIC_CONFIG, VALUES_CHARACTERS_MAX, RouteTable
from rocketmq_compat.remoting.bodies import DataVersion, QueueData, TopicConfig, TopicConfigSerializeWrapper
from tests.examples import examples

A0, A1 = BrokerIdentity("c", "a", 0, "h:1"), BrokerIdentity("c", "a", 1, "h:2")
B0 = BrokerIdentity("c", "b", 0, "h:3")


def topics(*names: str, counter: int = 1, state: int = 0, **config: Any) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper(
        topic_config_table={each: TopicConfig(topic_name=each, **config) for each in names},
        data_version=DataVersion(counter=counter, state_version=state),
    )


class World:
    """A table, and a connection for each broker, named as its address."""

    def __init__(self) -> None:
        self.table = RouteTable()
        self.now = 0.0

    def step(self, event: NamesrvEvent) -> list[NamesrvEffect]:
        effects = self.table.step(self.now, event)
        self.table.check()
        return effects

    def register(
        self, broker: BrokerIdentity, wanted: TopicConfigSerializeWrapper | None = None, **more: Any
    ) -> list[NamesrvEffect]:
        fields = {"connection": broker.address, "ha_address": "ha" + broker.address, "expires_after_s": 120.0, **more}
        return self.step(BrokerRegistered(broker=broker, topics=wanted, **fields))

    def addresses(self, topic: str) -> dict[str, dict[int, str]]:
        route = self.table.route(topic)
        return {} if route is None else {each.broker_name: dict(each.broker_addrs) for each in route.broker_datas}


@pytest.fixture
def world() -> World:
    return World()


def test_a_topic_is_where_its_masters_are(world: World) -> None:
    assert world.register(A0, topics("t", "u")) == [BrokerAppeared(A0), RegistrationAccepted()]
    world.register(B0, topics("t", read_queue_nums=4, write_queue_nums=2, perm=4))
    assert world.addresses("t") == {"a": {0: "h:1"}, "b": {0: "h:3"}}
    assert world.addresses("u") == {"a": {0: "h:1"}}
    route = world.table.route("t")
    assert route is not None
    assert [
        (queues.broker_name, queues.read_queue_nums, queues.write_queue_nums, queues.perm)
        for queues in route.queue_datas
    ] == [("a", 16, 16, 6), ("b", 4, 2, 4)]
    assert world.table.route("v") is None
    assert world.table.topics() == ["t", "u"]


def test_a_topic_that_is_registered_by_itself_comes_changes_and_goes(world: World) -> None:
    def queues(count: int, name: str = "a") -> TopicRegistered:
        data = QueueData(broker_name=name, read_queue_nums=count, write_queue_nums=count, perm=6)
        return TopicRegistered("u", (data,))

    assert world.step(queues(4)) == [RegistrationRefused("no broker has registered as a")]
    world.register(A0, topics("t"))
    world.register(B0, topics("u"))
    for count in (4, 2):
        assert world.step(queues(count)) == [RegistrationAccepted()]
        route = world.table.route("u")
        assert route is not None
        assert [(each.broker_name, each.read_queue_nums) for each in route.queue_datas] == [("a", count), ("b", 16)]
    assert world.step(queues(0)) == [RegistrationAccepted()]
    assert world.addresses("u") == {"b": {0: "h:3"}}, "that of another name stays"
    assert world.addresses("t") == {"a": {0: "h:1"}}
    world.step(queues(4))
    world.register(A0, topics("t", counter=2))
    assert world.addresses("u") == {"b": {0: "h:3"}}, "a registration as a whole is all that there is"


def test_a_slave_is_told_where_its_master_is_and_brings_no_topics(world: World) -> None:
    assert world.register(A1, topics("t"))[-1] == RegistrationAccepted()
    assert world.table.route("t") is None
    world.register(A0, topics("t"))
    assert world.register(A1, topics("t")) == [RegistrationAccepted("h:1", "hah:1")]
    assert world.addresses("t") == {"a": {0: "h:1", 1: "h:2"}}


def test_a_lost_connection_removes_its_broker_at_once(world: World) -> None:
    world.register(A0, topics("t"))
    world.register(A1)
    assert world.step(BrokerConnectionLost("h:1")) == [BrokerRemoved(A0, "its connection was lost")]
    assert world.addresses("t") == {"a": {1: "h:2"}}, "consumers go on at the slave"


def test_a_connection_that_was_replaced_removes_no_broker(world: World) -> None:
    world.register(A0, topics("t"), connection="old")
    world.register(A0, topics("t"), connection="new")
    assert world.step(BrokerConnectionLost("old")) == []
    assert world.addresses("t") == {"a": {0: "h:1"}}


def test_with_the_last_broker_of_a_name_its_queues_go(world: World) -> None:
    world.register(A0, topics("t", "u"))
    world.register(B0, topics("t"))
    world.step(BrokerUnregistered(A0))
    assert world.table.topics() == ["t"]
    assert world.addresses("t") == {"b": {0: "h:3"}}


def test_a_broker_that_leaves_with_another_address_is_not_the_one_that_is_there(world: World) -> None:
    world.register(A0, topics("t"))
    assert world.step(BrokerUnregistered(BrokerIdentity("c", "a", 0, "h:9"))) == []
    assert world.addresses("t") == {"a": {0: "h:1"}}


def test_a_silent_broker_is_removed_and_its_connection_closed(world: World) -> None:
    world.register(A0, topics("t"))
    world.register(B0, topics("t"), expires_after_s=10.0)
    world.now = 10.0
    assert world.step(RegistrationTimePassed()) == []
    world.now = 10.1
    reason = "it was silent for 10 s"
    assert world.step(RegistrationTimePassed()) == [BrokerRemoved(B0, reason), CloseBrokerConnection("h:3", reason)]
    world.now = 120.1
    assert BrokerRemoved(A0, "it was silent for 120 s") in world.step(RegistrationTimePassed())


@pytest.mark.parametrize(
    "event",
    [BrokerBeat("h:1", A0), DataVersionQuery("h:1", A0, DataVersion(counter=1)), None],
    ids=["beat", "query", "again"],
)
def test_a_broker_that_shows_itself_stays(world: World, event: NamesrvEvent | None) -> None:
    world.register(A0, topics("t"))
    world.now = 100.0
    if event is None:
        world.register(A0, topics("t"))
    else:
        assert world.step(event) in ([], [DataVersionCompared(False)])
    world.now = 219.0
    assert world.step(RegistrationTimePassed()) == []


def test_topics_are_taken_when_the_data_version_changes(world: World) -> None:
    world.register(A0, topics("t", "u", counter=1))
    world.register(A0, topics("t", counter=1))
    assert world.table.topics() == ["t", "u"]
    world.register(A0, topics("t", "v", counter=2))
    assert world.table.topics() == ["t", "v"], "a topic that its master deleted is gone"


def test_a_broker_asks_whether_its_data_is_known(world: World) -> None:
    version = DataVersion(counter=1)
    assert world.step(DataVersionQuery("h:1", A0, version)) == [DataVersionCompared(True)]
    world.register(A0, topics("t", counter=1))
    assert world.step(DataVersionQuery("h:1", A0, version)) == [DataVersionCompared(False)]
    assert world.step(DataVersionQuery("h:1", A0, DataVersion(counter=2))) == [DataVersionCompared(True)]


def test_a_broker_with_another_id_is_no_longer_what_it_was(world: World) -> None:
    world.register(A0, topics("t"))
    world.register(A1)
    slave = BrokerIdentity("c", "a", 2, "h:1")
    assert BrokerRemoved(A0, "it registered with id 2") in world.register(slave)
    assert world.addresses("t") == {"a": {1: "h:2", 2: "h:1"}}


def test_a_new_master_replaces_an_older_one_and_never_the_other_way_round(world: World) -> None:
    world.register(A0, topics("t", state=3))
    newer = BrokerIdentity("c", "a", 0, "h:9")
    assert world.register(newer, topics("t", "u", state=4)) == [
        BrokerRemoved(A0, "h:9 registered with its id"),
        BrokerAppeared(newer),
        RegistrationAccepted(),
    ]
    (refused,) = world.register(A0, topics("t", state=3))
    assert refused == RegistrationRefused("h:9 has registered as a newer master of a")
    assert world.addresses("u") == {"a": {0: "h:9"}}
    world.step(BrokerConnectionLost("h:9"))
    assert world.register(A0, topics("t", state=3))[-1] == RegistrationAccepted()


def test_a_name_belongs_to_one_cluster(world: World) -> None:
    world.register(A0, topics("t"))
    (refused,) = world.register(BrokerIdentity("d", "a", 1, "h:9"))
    assert refused == RegistrationRefused("the broker name a is in use in cluster c")


def test_brokers_are_bounded(world: World) -> None:
    world.table = RouteTable(brokers_max=2)
    world.register(A0, topics("t"))
    world.register(A1)
    (refused,) = world.register(B0)
    assert isinstance(refused, RegistrationRefused)
    assert world.register(A0, topics("t"))[-1] == RegistrationAccepted()


def test_topics_are_bounded(world: World) -> None:
    world.table = RouteTable(queues_max=3)
    world.register(A0, topics("t", "u"))
    (refused,) = world.register(B0, topics("t", "u"))
    assert refused == RegistrationRefused("brokers have registered 3 topics, no more are taken")
    assert world.register(B0, topics("t"))[-1] == RegistrationAccepted()
    assert world.addresses("t") == {"a": {0: "h:1"}, "b": {0: B0.address}}


def test_values_are_bounded_in_number_and_in_size(world: World) -> None:
    assert isinstance(world.step(KvPut("n", "k", "x" * VALUES_CHARACTERS_MAX))[0], KvRefused)
    world.table = RouteTable(values_max=2)
    world.step(KvPut("n", "0", "x"))
    world.step(KvPut("o", "1", "x"))
    assert isinstance(world.step(KvPut("n", "more", "x"))[0], KvRefused)
    world.step(KvDeletion("n", "0"))
    assert world.step(KvPut("n", "more", "x")) == [KvChanged("n", "more", "x")]


def test_a_deleted_topic_leaves_the_routes(world: World) -> None:
    other = BrokerIdentity("d", "x", 0, "h:7")
    world.register(A0, topics("t"))
    world.register(other, topics("t"))
    assert world.step(TopicDeletion("t", "d")) == []
    assert world.addresses("t") == {"a": {0: "h:1"}}
    world.step(TopicDeletion("t", None))
    world.step(TopicDeletion("unknown", None))
    assert world.table.route("t") is None


def test_writing_can_be_forbidden_and_allowed_again(world: World) -> None:
    world.register(A0, topics("t", "u"))
    world.register(B0, topics("t"))
    assert world.step(WritePermChange("a", False)) == [TopicsChanged(2)]
    route = world.table.route("t")
    assert route is not None
    assert [each.perm for each in route.queue_datas] == [4, 6]
    assert world.step(WritePermChange("a", True)) == [TopicsChanged(2)]
    again = world.table.route("t")
    assert again is not None
    assert [each.perm for each in again.queue_datas] == [6, 6]
    assert world.step(WritePermChange("none", True)) == [TopicsChanged(0)]


def test_values_are_kept_and_pin_the_queues_of_ordered_topics(world: World) -> None:
    world.register(A0, topics("t"))
    assert world.step(KvPut(ORDER_TOPIC_CONFIG, "t", "a:4")) == [KvChanged(ORDER_TOPIC_CONFIG, "t", "a:4")]
    with_order, without = world.table.route("t", with_order=True), world.table.route("t")
    assert with_order is not None
    assert without is not None
    assert (with_order.order_topic_conf, without.order_topic_conf) == ("a:4", None)
    assert world.table.values(ORDER_TOPIC_CONFIG) == {"t": "a:4"}
    assert RouteTable(world.table.all_values()).value(ORDER_TOPIC_CONFIG, "t") == "a:4"
    assert world.step(KvDeletion(ORDER_TOPIC_CONFIG, "t")) == [KvChanged(ORDER_TOPIC_CONFIG, "t", None)]
    assert world.step(KvDeletion(ORDER_TOPIC_CONFIG, "t")) == []
    assert world.table.all_values() == {}


def test_clusters_and_names_are_told(world: World) -> None:
    world.register(A0, topics("t"))
    world.register(A1)
    world.register(BrokerIdentity("d", "x", 0, "h:7"), topics("t", "u"))
    info = world.table.cluster_info()
    assert info.cluster_addr_table == {"c": ("a",), "d": ("x",)}
    assert info.broker_addr_table["a"].broker_addrs == {0: "h:1", 1: "h:2"}
    assert world.table.topics("c") == ["t"]
    assert world.table.topics("d") == ["t", "u"]
    group = world.table.member_group("c", "a")
    assert group is not None
    assert group.broker_addrs == info.broker_addr_table["a"].broker_addrs
    assert world.table.member_group("d", "a") is None


IDENTITIES = st.builds(
    BrokerIdentity, st.just("c"), st.sampled_from("ab"), st.integers(0, 2), st.sampled_from(["h:1", "h:2", "h:3"])
)
NAMES = st.lists(st.sampled_from("tuv"), unique=True)


class RoutesMachine(RuleBasedStateMachine):
    """The model: the brokers that are there in the order in which they came, each with what it registered last."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.now = 0.0
        self.brokers: list[tuple[BrokerIdentity, int, float]] = []
        """Broker, connection, when it was seen last."""
        self.topics: dict[str, set[str]] = {}
        self.counter = 0

    def keep(self, *, without: Any) -> None:
        self.brokers = [each for each in self.brokers if not without(each)]
        names = {broker.name for broker, _, _ in self.brokers}
        self.topics = {name: each for name, each in self.topics.items() if name in names}

    @rule(broker=IDENTITIES, connection=st.integers(1, 4), names=NAMES)
    def register(self, broker: BrokerIdentity, connection: int, names: list[str]) -> None:
        self.counter += 1
        event = BrokerRegistered(connection, broker, "ha", topics(*names, counter=self.counter), 50.0)
        effects = self.table.step(self.now, event)
        assert isinstance(effects[-1], RegistrationAccepted)
        self.brokers = [
            registered
            for registered in self.brokers
            if registered[0].name != broker.name
            or (registered[0].broker_id != broker.broker_id and registered[0].address != broker.address)
        ]
        self.brokers.append((broker, connection, self.now))
        if broker.broker_id == 0:
            self.topics[broker.name] = set(names)

    @rule(broker=IDENTITIES)
    def unregister(self, broker: BrokerIdentity) -> None:
        self.table.step(self.now, BrokerUnregistered(broker))
        self.keep(without=lambda each: each[0] == broker)

    @rule(connection=st.integers(1, 4))
    def lose(self, connection: int) -> None:
        self.table.step(self.now, BrokerConnectionLost(connection))
        self.keep(without=lambda each: each[1] == connection)

    @rule(seconds=st.sampled_from([1.0, 20.0, 51.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.table.step(self.now, RegistrationTimePassed())
        self.keep(without=lambda each: self.now - each[2] > 50)

    @rule(broker=IDENTITIES, connection=st.integers(1, 4))
    def beat(self, broker: BrokerIdentity, connection: int) -> None:
        self.table.step(self.now, BrokerBeat(connection, broker))
        self.brokers = [(each[0], connection, self.now) if each[0] == broker else each for each in self.brokers]

    @invariant()
    def the_table_agrees_with_the_model(self) -> None:
        self.table.check()
        info = self.table.cluster_info()
        found = {
            (name, broker_id, address)
            for name, data in info.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        }
        assert found == {(each.name, each.broker_id, each.address) for each, _, _ in self.brokers}
        for topic in "tuv":
            route = self.table.route(topic)
            expected = sorted(name for name, names in self.topics.items() if topic in names)
            assert [each.broker_name for each in route.queue_datas] if route else expected == []
            assert (sorted(each.broker_name for each in route.broker_datas) if route else []) == expected


RoutesMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestRoutes = RoutesMachine.TestCase
