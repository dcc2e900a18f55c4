"""One process with the official C++ client (the wheel `rocketmq`).

It must not be loaded into a test's process: it has threads and log files of its own, and ends a process that it is not
happy with.

    python worker.py send NAMESRV TOPIC COUNT
    python worker.py consume NAMESRV TOPIC GROUP WAY TAGS COUNT

    python worker.py send-one NAMESRV TOPIC BODY

`send` sends in all ways, and prints a line of JSON for each message. `consume` prints up to COUNT bodies; WAY is
concurrent or orderly. `send-one` prints the outcome of one message, an error too. ACCESS_KEY and SECRET_KEY in the
environment are the account.

A consumer fails on its first sight of a body that begins with `fail`.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage
from rocketmq.exceptions import RocketMQException, ffi_check
from rocketmq.ffi import dll

CONSUMES_FOR_S = 40
CONSUME_SUCCESS, RECONSUME_LATER = 0, 1


def show(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def log_in(client: Any) -> None:
    if "ACCESS_KEY" in os.environ:
        client.set_session_credentials(os.environ["ACCESS_KEY"], os.environ["SECRET_KEY"], "ALIYUN")


def send_one(name_server: str, topic: str, body: str) -> None:
    producer = Producer("producers")
    producer.set_namesrv_addr(name_server)
    log_in(producer)
    producer.start()
    message = Message(topic)
    message.set_body(body)
    try:
        show(status=int(producer.send_sync(message).status), error="")
    except RocketMQException as error:
        show(status=-1, error=str(error))
    producer.shutdown()


def send(name_server: str, topic: str, count: str) -> None:
    producer = Producer("producers")
    producer.set_namesrv_addr(name_server)
    log_in(producer)
    producer.start()

    def message(body: str, tags: str = "A") -> Any:
        made = Message(topic)
        made.set_keys(f"key-{body}")
        made.set_tags(tags)
        made.set_body(body)
        return made

    def print_result(way: str, body: str, result: Any) -> None:
        show(way=way, body=body, status=int(result.status), offset=result.offset)

    for number in range(int(count)):
        print_result("sync", f"sync-{number}", producer.send_sync(message(f"sync-{number}")))
    for number in range(int(count)):
        print_result("orderly", f"orderly-{number}", producer.send_orderly(message(f"orderly-{number}", "B"), 7))
    result = producer.send_batch([message(f"batch-{number}") for number in range(int(count))])
    for number in range(int(count)):
        print_result("batch", f"batch-{number}", result)
    for number in range(int(count)):
        producer.send_oneway(message(f"oneway-{number}"))
        show(way="oneway", body=f"oneway-{number}", status=0, offset=-1)
    print_result("sync", "fail-once", producer.send_sync(message("fail-once")))
    delayed = message("delayed")
    delayed.set_delay_time_level(1)
    print_result("delayed", "delayed", producer.send_sync(delayed))
    producer.shutdown()


def consume(name_server: str, topic: str, group: str, way: str, tags: str, count: str) -> None:
    bodies: set[str] = set()
    failed: set[str] = set()
    complete = threading.Event()
    lock = threading.Lock()

    def take(_: Any, handle: Any) -> int:
        message = RecvMessage(handle)
        body = message.body.decode()
        with lock:
            fails = body.startswith("fail") and body not in bodies
            bodies.add(body)
            (failed.add if fails else failed.discard)(body)
            show(body=body, topic=message.topic, tries=message.reconsume_times, queue=message.queue_id)
            if len(bodies) >= int(count) and not failed:
                complete.set()
        return RECONSUME_LATER if fails else CONSUME_SUCCESS

    consumer = PushConsumer(group, orderly=way == "orderly")
    consumer.set_namesrv_addr(name_server)
    log_in(consumer)
    # Not by `subscribe`: what that makes of an exception depends on what happens to be in memory.
    ffi_check(dll.Subscribe(consumer._handle, topic.encode(), tags.encode()))
    consumer._register_callback(take)
    consumer.start()
    complete.wait(CONSUMES_FOR_S)
    consumer.shutdown()


if __name__ == "__main__":
    ways: dict[str, Callable[..., None]] = {"send": send, "send-one": send_one, "consume": consume}
    ways[sys.argv[1]](*sys.argv[2:])
    show(done=True)
    os._exit(0)  # its destructors are not safe while its threads run
