"""Calls each method through the proxy and says what was seen; the first surprise ends it."""

import queue
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

with open(sys.argv[2], "rb") as file:
    credentials = grpc.ssl_channel_credentials(file.read())
options = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]
channel = grpc.secure_channel(sys.argv[1], credentials, options)
call = lambda name: "/suite.Calls/" + name


def check(what, seen, expected):
    if seen != expected:
        sys.exit(f"{what}: {seen!r} is not {expected!r}")
    print(what)


def fails(ask):
    try:
        ask()
    except grpc.RpcError as error:
        return error.code(), error.details()
    return "no failure"


unary = channel.unary_unary(call("Unary"))
answer, done = unary.with_call(b"hello", metadata=(("x-request", "a"),), timeout=20)
check("a unary call", answer, b"hello")
trailers = dict(done.trailing_metadata())
check("its trailers", (trailers.get("x-trailer"), trailers.get("x-bytes-bin")), ("of the server", b"\x00\xff"))
long = bytes(range(256)) * (20 << 12)
check("a message of 20 MiB", unary(long, timeout=60), long)

fail = channel.unary_unary(call("Fail"))
check("a status with words", fails(lambda: fail(b"why", timeout=20)), (grpc.StatusCode.FAILED_PRECONDITION, "näh: why"))
nothing = channel.unary_unary(call("None"))
check("a method that is not there", fails(lambda: nothing(b"", timeout=20))[0], grpc.StatusCode.UNIMPLEMENTED)
slow = channel.unary_unary(call("Slow"))
check("a deadline", fails(lambda: slow(b"", timeout=0.5))[0], grpc.StatusCode.DEADLINE_EXCEEDED)
check("which its server hears of", channel.unary_unary(call("WasCancelled"))(b"", timeout=20), b"yes")

numbers = [int(one) for one in channel.unary_stream(call("Count"))(b"5000", timeout=60)]
check("a stream of answers", numbers, list(range(5000)))
total = channel.stream_unary(call("AddUp"))((b"x" * 10000 for _ in range(2000)), timeout=60)
check("a stream of requests", total, b"20000000")
asked = queue.SimpleQueue()
answers = channel.stream_stream(call("Echo"))(iter(asked.get, None), timeout=60)
for number in range(50):
    asked.put(str(number).encode())
    if next(answers) != str(number).encode():
        sys.exit(f"question {number} is not answered before the next")
asked.put(None)
check("questions and answers in turn", next(answers, "the end"), "the end")

health = health_pb2_grpc.HealthStub(channel)
status = health.Check(health_pb2.HealthCheckRequest(service="suite.Calls"), timeout=20).status
check("its health", status, health_pb2.HealthCheckResponse.SERVING)
