"""The load is as the stories take it for granted."""

from jepsen_like.systems.apache_rocketmq.scenarios import MASTER_GONE_FOR_LONG, PATIENT
from jepsen_like.systems.rocketmq.cpp_client_load import STAYS_S


def test_no_member_tells_the_next_master_where_it_was_under_the_old_one() -> None:
    (session_ms,) = (int(word.split("=")[1]) for word in PATIENT if word.startswith("controllerHeartBeatTimeoutMills="))
    (gone,) = MASTER_GONE_FOR_LONG
    assert max(STAYS_S) < session_ms / 1000 < gone.hold_s
