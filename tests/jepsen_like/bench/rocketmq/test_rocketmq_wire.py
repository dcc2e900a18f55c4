"""The load generator's requests are what brokers read, and an answer counts when it is whole and is SUCCESS."""

import socket
import threading

import pytest

from jepsen_like.bench.conversation import NotAnAnswer
from jepsen_like.bench.rocketmq.senders import MasterLink, WindowedLoad
from jepsen_like.bench.rocketmq.wire import QUEUES, PullConversation, SendConversation
from rocketmq_compat.records import inner_messages, read_properties
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command, decode, encode
from rocketmq_compat.remoting.headers.pulling import PullMessageRequestHeader, PullMessageResponseHeader
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader


def answer(request: bytes, code: int = ResponseCode.SUCCESS, remark: str | None = None) -> bytes:
    return b"".join(encode(decode(request[4:]).answer(code, remark=remark)))


def test_messages_go_to_all_queues_each_with_an_id_of_its_own() -> None:
    conversation = SendConversation("t", 100)
    commands = [decode(conversation.request()[4:]) for _ in range(QUEUES)]
    headers = [SendMessageRequestHeader.read_v2(command.ext) for command in commands]
    assert {command.code for command in commands} == {RequestCode.SEND_MESSAGE_V2}
    assert {header.queue_id for header in headers} == set(range(QUEUES))
    assert all(len(command.body) == 100 for command in commands)
    assert len({read_properties(header.properties or "")["UNIQ_KEY"] for header in headers}) == QUEUES
    assert len({command.opaque for command in commands}) == QUEUES


def test_a_batch_holds_its_messages() -> None:
    command = decode(SendConversation("t", 100, batch=3).request()[4:])
    messages = inner_messages(command.body)
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    assert [len(each.body) for each in messages] == [100, 100, 100]
    assert len({read_properties(each.properties)["UNIQ_KEY"] for each in messages}) == 3


def test_answers_count_when_they_are_whole_in_any_order() -> None:
    conversation = SendConversation("t", 1)
    first, second = conversation.request(), conversation.request()
    stream = answer(second) + answer(first)
    assert [conversation.take(stream[at : at + 1]) for at in range(len(stream))].count(1) == 2
    assert conversation.answered == [decode(first[4:]).opaque]


def test_a_message_that_is_stored_with_less_than_was_promised_is_no_success() -> None:
    conversation = SendConversation("t", 1)
    assert conversation.take(answer(conversation.request(), ResponseCode.FLUSH_SLAVE_TIMEOUT)) == 0
    assert conversation.refusal
    assert not conversation.is_definite
    assert conversation.take(answer(conversation.request(), ResponseCode.SYSTEM_BUSY)) == 0
    assert conversation.is_definite


def test_bytes_outside_of_the_protocol_are_noticed() -> None:
    with pytest.raises(NotAnAnswer):
        SendConversation("t", 1).take(b"HTTP/1.1 400 Bad Request\r\n")


def test_a_consumer_reads_on_where_it_was_told_and_begins_again_at_the_end() -> None:
    conversation = PullConversation("t", 2)
    request = decode(conversation.request()[4:])
    found = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=7, min_offset=0, max_offset=7)
    conversation.take(b"".join(encode(request.answer(ResponseCode.SUCCESS, ext=found.ext(), body=b"x" * 70))))
    assert conversation.messages == 7
    again = decode(conversation.request()[4:])
    assert PullMessageRequestHeader.read(again.ext).queue_offset == 7
    conversation.take(b"".join(encode(again.answer(ResponseCode.PULL_NOT_FOUND, ext=found.ext()))))
    first = decode(conversation.request()[4:])
    assert PullMessageRequestHeader.read(first.ext).queue_offset == 0
    conversation.take(b"".join(encode(first.answer(ResponseCode.PULL_NOT_FOUND, ext=found.ext()))))
    assert conversation.refusal == ""


class OneBroker:
    """Takes connections one after the other, and answers so many requests on each before it hangs up."""

    def __init__(self, *answered: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, args=(answered,))
        self.hung_up = threading.Event()
        self.thread.start()

    def serve(self, answered: tuple[int, ...]) -> None:
        for count in answered:
            stream, _ = self.listener.accept()
            with stream:
                for _ in range(count):
                    size = int.from_bytes(stream.recv(4, socket.MSG_WAITALL), "big")
                    frame = stream.recv(size, socket.MSG_WAITALL)
                    stream.sendall(b"".join(encode(Command(0, decode(frame).opaque, flag=1))))
            self.hung_up.set()
        self.listener.close()


def test_a_connection_that_has_ended_is_dialed_anew_and_no_send_on_it_is_unknown() -> None:
    broker = OneBroker(1, 1)
    link = MasterLink(broker.port, lambda: SendConversation("t", 1))
    assert link.send() is True
    broker.hung_up.wait()
    assert link.send() is True
    broker.thread.join()
    assert link.send() is False, "no one listens: certainly not stored"
    link.close()


def test_every_request_under_way_is_answered_before_the_load_ends() -> None:
    broker = OneBroker(8)
    with WindowedLoad(broker.port, [SendConversation("t", 1)], window=8) as load:
        sample = load.run(0.0)
    assert len(sample.latencies_ns) == 8
    broker.thread.join()
