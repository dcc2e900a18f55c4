"""A test can take away a zone of its cluster, and what is spread over the others goes on."""

import pytest
from confluent_kafka.admin import AdminClient

from jepsen_like.port.zones import WrongZones
from jepsen_like.testing.kafka.sync import LocalKafka
from jepsen_like.testing.rocketmq.sync import LocalRocketMq
from jepsen_like.testing.sync import LocalCluster


def test_a_group_in_three_zones_goes_on_without_the_leaders() -> None:
    with LocalCluster.open(nodes=3, zones="3", zone_delay_s=0.001) as cluster, cluster.client() as client:
        client.append([b"before"])
        leader = cluster.wait_for_leader()
        (zone,) = [zone for zone in "abc" if leader in cluster.zone(zone)]
        cluster.kill(*cluster.zone(zone))
        client.append([b"after"])
        assert cluster.check().valid


def test_zones_of_a_cluster_are_named_and_refused_if_they_do_not_fit() -> None:
    with LocalCluster.open(nodes=3, zones="2+1") as cluster:
        assert cluster.zone("a") == (1, 3)
        assert cluster.zone("b") == (2,)
        with pytest.raises(ValueError, match="there is no zone 'c'; there are a, b"):
            cluster.zone("c")
    with pytest.raises(WrongZones, match="places for 4 nodes"), LocalCluster.open(nodes=3, zones="2+2"):
        pass


def test_replicas_of_a_topic_stand_in_all_zones() -> None:
    settings = {"num.partitions": 6, "default.replication.factor": 2}
    with LocalKafka.open(brokers=4, zones="2", settings=settings) as cluster:
        producer = cluster.producer()
        producer.produce("spread", b"x")
        producer.flush()
        cluster.leader("spread", 0)
        topic = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics("spread").topics["spread"]
        placed = [set(partition.replicas) for partition in topic.partitions.values()]
        assert len(placed) == 6
        assert all(replicas & set(cluster.zone(zone)) for replicas in placed for zone in "ab")


def test_the_name_server_stands_in_a_zone_too() -> None:
    with LocalRocketMq.open(pairs=1, slaves=1, zones="2") as cluster:
        assert (cluster.zone("a"), cluster.zone("b")) == ((1, cluster.name_server), (2,))
