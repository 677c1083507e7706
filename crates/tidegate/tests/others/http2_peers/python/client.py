"""A client by python-h2, which lets a program say when windows open, what is reset, and what no client should send.

    client.py PORT FILE windows|resets|poisoned KIND|mixed KIND

FILE has the bytes that the server answers with. What is not as it should be ends the program with a sentence."""

import socket
import sys

import h2.config
import h2.connection
import h2.events
from h2.settings import SettingCodes

HEAD = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost")]


class Stream:
    def __init__(self):
        self.status, self.body, self.reset, self.ended = None, b"", None, False

    @property
    def over(self):
        return self.ended or self.reset is not None


class Client:
    """One connection. `read` is how many bytes it gives back of each window at a time."""

    def __init__(self, port, settings=None, is_strict=True):
        config = h2.config.H2Configuration(
            client_side=True, validate_outbound_headers=is_strict, normalize_outbound_headers=is_strict
        )
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.streams = {}
        self.on_data = lambda key, stream: None
        if settings:
            self.h2.update_settings(settings)
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def get(self, path):
        return self.send(HEAD + [(":path", path)])

    def send(self, head, body=None, trailers=None):
        key = self.h2.get_next_available_stream_id()
        self.streams[key] = Stream()
        self.h2.send_headers(key, head, end_stream=body is None)
        if body is not None:
            self.h2.send_data(key, body, end_stream=trailers is None)
        if trailers is not None:
            self.h2.send_headers(key, trailers, end_stream=True)
        return key

    def wait(self, until=None):
        """Reads until all streams are over, or until something else is so."""
        until = until or (lambda: all(stream.over for stream in self.streams.values()))
        self.flush()
        while not until():
            piece = self.socket.recv(65536)
            assert piece, "the connection was ended"
            for event in self.h2.receive_data(piece):
                self.handle(event)
            self.flush()

    def handle(self, event):
        if isinstance(event, h2.events.ConnectionTerminated):
            raise AssertionError(f"GOAWAY: {event.error_code} {event.additional_data}")
        stream = self.streams.get(getattr(event, "stream_id", None))
        if stream is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            stream.status = int(dict(event.headers)[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
            # Padding and all; a stream that is over has no window any more.
            if event.flow_controlled_length and not stream.over:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self.on_data(event.stream_id, stream)
        elif isinstance(event, h2.events.StreamReset):
            stream.reset = event.error_code
        elif isinstance(event, h2.events.StreamEnded):
            stream.ended = True


def expect_whole(stream, expected, what):
    assert stream.reset is None and stream.status == 200, f"{what}: {stream.status}, reset by {stream.reset}"
    assert stream.body == expected, f"{what}: {len(stream.body)} bytes of {len(expected)}, or others"


def windows(port, known):
    """100 streams through windows of 200 bytes; and through ones that are closed at first and opened later."""
    client = Client(port, {SettingCodes.INITIAL_WINDOW_SIZE: 200})
    keys = {client.get(f"/bytes/{50 * number}"): 50 * number for number in range(100)}
    client.wait()
    for key, length in keys.items():
        expect_whole(client.streams[key], known[:length], f"{length} bytes by 200")
    client = Client(port, {SettingCodes.INITIAL_WINDOW_SIZE: 0})
    keys = {client.get(f"/bytes/{500 * number}"): 500 * number for number in range(100)}
    client.wait(lambda: all(stream.status for stream in client.streams.values()))
    assert not any(stream.body for stream in client.streams.values()), "a window was not kept"
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1})
    client.wait(lambda: all(stream.body or not keys[key] for key, stream in client.streams.items()))
    assert all(len(stream.body) <= 1 for stream in client.streams.values()), "a window was not kept"
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65535})
    client.wait()
    for key, length in keys.items():
        expect_whole(client.streams[key], known[:length], f"{length} bytes, late")


def resets(port, known):
    """Of 100 streams each second is reset: at once, or when some of its body has come. The others are whole."""
    client = Client(port)
    left = set()

    def reset(key, stream):
        if key in left and not stream.over:
            client.h2.reset_stream(key, 8)
            stream.reset = 8

    client.on_data = reset
    for number in range(100):
        key = client.get("/bytes/100000")
        if number % 2:
            left.add(key)
        if number % 4 == 3:
            reset(key, client.streams[key])
    client.wait()
    for key, stream in client.streams.items():
        if key not in left:
            expect_whole(stream, known[:100000], f"stream {key}")


def poisoned(port, known, kind):
    """99 good requests, and in the middle of them one that is none."""
    client = Client(port, is_strict=False)
    bad = None
    for number in range(99):
        client.get(f"/bytes/{number * 100}")
        if number == 50:
            head = HEAD + [(":path", "/bytes/1")]
            post = [(":method", "POST")] + HEAD[1:] + [(":path", "/echo")]
            bad = {
                "name": lambda: client.send(head + [("X-Abc", "1")]),
                "value": lambda: client.send(head + [("x-abc", b"a\x7fb")]),
                "pseudo": lambda: client.send(head + [(":foo", "1")]),
                "late": lambda: client.send(head[:3] + [("x-abc", "1")] + head[3:]),
                "connection": lambda: client.send(head + [("connection", "close")]),
                "trailers": lambda: client.send(post, b"abc", [(":path", "/")]),
                "trailer-name": lambda: client.send(post, b"abc", [("X-Abc", "1")]),
                "length": lambda: client.send(post + [("content-length", "5")], b"abc"),
                "authority": lambda: client.send(head + [("host", "elsewhere")]),
            }[kind]()
    client.wait()
    stream = client.streams.pop(bad)
    assert stream.status == 400 or stream.reset is not None, f"{kind}: {stream.status} {stream.body}"
    print(f"{kind}: {stream.status}, reset by {stream.reset}")
    for number, stream in enumerate(client.streams.values()):
        expect_whole(stream, known[: number * 100], f"{number} beside {kind}")


def mixed(port, known, kind):
    """99 requests that are answered well, and in the middle of them one that is not."""
    client = Client(port)
    for number in range(99):
        client.get(f"/bytes/{number * 100}")
        if number == 50:
            bad = client.get(f"/poison/{kind}")
    client.wait()
    stream = client.streams.pop(bad)
    assert stream.status == 502 or stream.reset is not None, f"{kind}: {stream.status} {stream.body}"
    print(f"{kind}: {stream.status}, reset by {stream.reset}")
    for number, stream in enumerate(client.streams.values()):
        expect_whole(stream, known[: number * 100], f"{number} beside {kind}")
    key = client.get(f"/seen/{kind}")
    client.wait()
    expect_whole(client.streams[key], b"1", "how often it was asked")


def main(port, file, what, *arguments):
    with open(file, "rb") as bodies:
        known = bodies.read()
    {"windows": windows, "resets": resets, "poisoned": poisoned, "mixed": mixed}[what](int(port), known, *arguments)


main(*sys.argv[1:])
