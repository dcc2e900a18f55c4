"""The lines of Apache Kafka's brokers mean what those of our own brokers mean."""

from typing import Any

import pytest

from jepsen_like.port.observations import Observation, Ready, RoleReported
from jepsen_like.systems.apache_kafka.broker_lines import translate
from jepsen_like.systems.apache_kafka.system import ApacheKafkaAdapter

LED = (
    "[Broker id=1] Leader log-0 with topic id Some(SUyrUsT-Q1CFxb_-093d9w) starts at leader epoch 4 from offset 1520 with "
    "partition epoch 3, high watermark 1516, ISR [1,2], adding replicas [] and removing replicas [] . Previous leader "
    "Some(3) and previous leader epoch was 0."
)
FOLLOWED = (
    "[Broker id=1] Follower my-log-12 starts at leader epoch 5 from offset 4744 with partition epoch 7 and high watermark "
    "4744. Current leader is -1. Previous leader Some(2) and previous leader epoch was 3."
)
SHRUNK = "[Partition log-0 broker=1] ISR updated to 3,1  and version updated to 4"
CANDIDATE = (
    "[RaftManager id=1] Completed transition to CandidateState(localId=1, localDirectoryId=Xv7W, epoch=3, epochElection="
    "EpochElection[voterStates={}], highWatermark=Optional.empty, electionTimeoutMs=1483) from ProspectiveState(epoch=2)"
)
HEADS = (
    "[RaftManager id=1] Completed transition to Leader(localVoterNode=VoterNode(voterKey=ReplicaKey(id=1), listeners="
    "Endpoints(endpoints={ListenerName(CONTROLLER)=n1/<unresolved>:1})), epoch=3, epochStartOffset=0) from Candidate(epoch=2)"
)


def line(says: str) -> dict[str, Any]:
    return {"t_ns": 7, "event": "log", "level": "INFO", "logger": "a.logger", "says": says}


@pytest.mark.parametrize(
    ("says", "seen"),
    [
        ("[KafkaRaftServer nodeId=1] Kafka Server started", Ready()),
        (LED, RoleReported("leader", 4, "log-0")),
        (FOLLOWED, RoleReported("follower", 5, "my-log-12")),
        (CANDIDATE, RoleReported("candidate", 3, "controller")),
        (HEADS, RoleReported("leader", 3, "controller")),
        (SHRUNK, None),
        ("Kafka Server starting", None),
    ],
)
def test_a_line_is_understood(says: str, seen: Observation | None) -> None:
    assert ApacheKafkaAdapter().observe(line(says)) == seen


def test_the_replicas_in_sync_are_read() -> None:
    assert translate(line(LED))["isr"] == [1, 2]
    shrunk = translate(line(SHRUNK))
    assert (shrunk["event"], shrunk["topic"], shrunk["partition"], shrunk["isr"]) == ("isr", "log", 0, [3, 1])
    assert shrunk["t_ns"] == 7
