"""A server by python-h2, whose settings change in the middle and whose answers may be none.

    server.py PORT FILE plain|moody|closed

FILE has the bytes that it answers with. `moody` lowers and raises its settings with each tenth request; `closed` takes
nothing of a body and answers all the same."""

import socket
import sys
import threading
from collections import Counter

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from h2.settings import SettingCodes

MOODS = [
    {SettingCodes.MAX_CONCURRENT_STREAMS: 1, SettingCodes.INITIAL_WINDOW_SIZE: 1000, SettingCodes.HEADER_TABLE_SIZE: 0},
    {SettingCodes.MAX_CONCURRENT_STREAMS: 10, SettingCodes.INITIAL_WINDOW_SIZE: 70000, SettingCodes.MAX_FRAME_SIZE: 20000},
    {SettingCodes.MAX_CONCURRENT_STREAMS: 3, SettingCodes.INITIAL_WINDOW_SIZE: 100, SettingCodes.HEADER_TABLE_SIZE: 100},
    {SettingCodes.MAX_CONCURRENT_STREAMS: 100, SettingCodes.INITIAL_WINDOW_SIZE: 65535, SettingCodes.HEADER_TABLE_SIZE: 4096},
]
seen = Counter()


class Connection:
    def __init__(self, peer, known, mood):
        config = h2.config.H2Configuration(
            client_side=False, header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.h2, self.peer, self.known, self.mood = h2.connection.H2Connection(config), peer, known, mood
        self.requests, self.received, self.waiting, self.answered = {}, Counter(), {}, 0
        self.is_acknowledged, self.changes = False, 1

    def serve(self):
        self.h2.initiate_connection()
        if self.mood == "closed":
            self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        while True:
            self.peer.sendall(self.h2.data_to_send())
            piece = self.peer.recv(65536)
            if not piece:
                return
            for event in self.h2.receive_data(piece):
                self.handle(event)

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = dict(event.headers)
            if self.mood == "closed":
                self.answer(event.stream_id, 403, b"no such upload")
        elif isinstance(event, h2.events.DataReceived):
            self.received[event.stream_id] += len(event.data)
            # By hand: python-h2 counts by windows of before when its settings have changed, and opens none of them.
            if event.flow_controlled_length and self.mood != "closed":
                self.h2.increment_flow_control_window(event.flow_controlled_length)
                if event.stream_ended is None and event.stream_id in self.requests:
                    self.h2.increment_flow_control_window(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            if event.stream_id in self.requests and self.mood != "closed":
                try:
                    self.act(event.stream_id, self.requests.pop(event.stream_id))
                except h2.exceptions.ProtocolError:
                    # The stream was reset by what came behind its end.
                    self.waiting.pop(event.stream_id, None)
        elif isinstance(event, h2.events.SettingsAcknowledged):
            self.is_acknowledged = True
        elif isinstance(event, h2.events.StreamReset):
            self.requests.pop(event.stream_id, None)
            self.waiting.pop(event.stream_id, None)
        elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            for key in list(self.waiting):
                self.pump(key)

    def act(self, key, head):
        what, _, argument = head[":path"].strip("/").partition("/")
        if what == "bytes":
            self.answer(key, 200, self.known[: int(argument)])
        elif what == "count":
            self.answer(key, 200, str(self.received.pop(key, 0)).encode())
        elif what == "seen":
            self.answer(key, 200, str(seen[argument]).encode())
        else:
            seen[argument] += 1
            self.poison(key, argument)
        self.answered += 1
        # One change at a time: python-h2 takes each acknowledgement for one of every setting that waits for one. And few
        # in all: many are a flood.
        if self.mood == "moody" and self.is_acknowledged and 10 * self.changes <= self.answered < 200:
            self.is_acknowledged = False
            self.changes += 1
            self.h2.update_settings(MOODS[self.changes % len(MOODS)])

    def answer(self, key, status, body):
        self.h2.send_headers(key, [(":status", str(status)), ("content-length", str(len(body)))])
        self.waiting[key] = body
        self.pump(key)

    def pump(self, key):
        body = self.waiting[key]
        while True:
            length = min(self.h2.local_flow_control_window(key), self.h2.max_outbound_frame_size, len(body))
            if length == 0 and body:
                break
            self.h2.send_data(key, body[:length], end_stream=length == len(body))
            body = body[length:]
            if not body:
                del self.waiting[key]
                return
        self.waiting[key] = body

    def poison(self, key, kind):
        head = [(":status", "200")]
        bad = {
            "name": [("X-Abc", "1")],
            "value": [("x-abc", b"a\x7fb")],
            "pseudo": [(":foo", "1")],
            "request": [(":path", "/")],
            "connection": [("transfer-encoding", "chunked")],
            "number": [("content-length", "1x")],
        }
        if kind in bad:
            # More of it follows than is wanted by then.
            self.h2.send_headers(key, head + bad[kind])
            self.h2.send_data(key, b"abc", end_stream=True)
        elif kind == "status":
            self.h2.send_headers(key, [("server", "x")], end_stream=True)
        elif kind == "longer":
            self.h2.send_headers(key, head + [("content-length", "5")])
            self.h2.send_data(key, b"abcdefgh", end_stream=True)
        elif kind == "shorter":
            self.h2.send_headers(key, head + [("content-length", "5")])
            self.h2.send_data(key, b"abc", end_stream=True)
        elif kind == "trailers":
            self.h2.send_headers(key, head)
            self.h2.send_data(key, b"abc")
            self.h2.send_headers(key, [(":status", "200")], end_stream=True)
        elif kind == "trailer-name":
            self.h2.send_headers(key, head)
            self.h2.send_data(key, b"abc")
            self.h2.send_headers(key, [("X-Abc", "1")], end_stream=True)


def serve(peer, known, mood):
    try:
        Connection(peer, known, mood).serve()
    except ConnectionError:
        pass
    finally:
        peer.close()


def main(port, file, mood):
    with open(file, "rb") as bodies:
        known = bodies.read()
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=1024)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=serve, args=(peer, known, mood), daemon=True).start()


main(*sys.argv[1:])
