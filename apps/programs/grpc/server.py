"""Four kinds of calls, health and failures, without generated code: messages are bytes."""

import sys
import threading
import time
from concurrent import futures

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


def unary(request, context):
    context.set_trailing_metadata((("x-trailer", "of the server"), ("x-bytes-bin", b"\x00\xff")))
    return request


def fail(request, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "näh: " + request.decode())


def slow(request, context):
    ended = threading.Event()
    context.add_callback(ended.set)
    if ended.wait(30):
        # Seen by the next call.
        cancelled.set()
    return b"too late"


def was_cancelled(request, context):
    return b"yes" if cancelled.wait(10) else b"no"


def count(request, context):
    for number in range(int(request)):
        yield str(number).encode()


def add_up(requests, context):
    return str(sum(len(request) for request in requests)).encode()


def echo(requests, context):
    for request in requests:
        yield request


cancelled = threading.Event()
server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=[("grpc.max_receive_message_length", 64 << 20)])
handlers = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Slow": grpc.unary_unary_rpc_method_handler(slow),
    "WasCancelled": grpc.unary_unary_rpc_method_handler(was_cancelled),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "AddUp": grpc.stream_unary_rpc_method_handler(add_up),
    "Echo": grpc.stream_stream_rpc_method_handler(echo),
}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("suite.Calls", handlers),))
status = health.HealthServicer()
status.set("suite.Calls", health_pb2.HealthCheckResponse.SERVING)
health_pb2_grpc.add_HealthServicer_to_server(status, server)
server.add_insecure_port("127.0.0.1:" + sys.argv[1])
server.start()
server.wait_for_termination()
