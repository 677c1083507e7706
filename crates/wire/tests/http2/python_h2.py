"""Reads connections of HTTP/2, one a line: the role of who receives, and what comes in hexadecimal digits. Says of each
what python-h2 makes of it: a line of what came on each stream, and how it ended."""

import sys

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

REQUEST = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")]


def receive(role, data):
    is_client = role == "client"
    config = h2.config.H2Configuration(client_side=is_client, header_encoding=False)
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    if is_client:
        for stream in (1, 3, 5):
            connection.send_headers(stream, REQUEST)
    streams = {}

    def of(event):
        return streams.setdefault(event.stream_id, {"head": "", "body": 0, "ended": 0, "trailers": 0, "reset": "-"})

    verdict = "good"
    try:
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                fields = dict(event.headers)
                of(event)["head"] = " ".join(fields.get(name, b"").decode("latin-1") for name in (b":method", b":authority", b":path"))
            elif isinstance(event, h2.events.ResponseReceived):
                of(event)["head"] = dict(event.headers)[b":status"].decode("latin-1")
            elif isinstance(event, h2.events.DataReceived):
                of(event)["body"] += len(event.data)
            elif isinstance(event, h2.events.TrailersReceived):
                of(event)["trailers"] += 1
            elif isinstance(event, h2.events.StreamEnded):
                of(event)["ended"] = 1
            elif isinstance(event, h2.events.StreamReset):
                # What nobody knows counts as INTERNAL_ERROR to us.
                code = int(event.error_code)
                of(event)["reset"] = str(code if code <= 13 else 2)
                if not event.remote_reset:
                    verdict = "stream"
    except Exception as error:  # What is no ProtocolError is a fault of python-h2's own, which ends it as well.
        verdict = f"connection {int(getattr(error, 'error_code', 1))} {type(error).__name__}"
    seen = ";".join(
        f"{stream} {what['head']} {what['body']} {what['ended']} {what['trailers']} {what['reset']}"
        for stream, what in sorted(streams.items())
    )
    return f"{verdict}|{seen}"


for line in sys.stdin:
    role, _, digits = line.strip().partition(" ")
    print(receive(role, bytes.fromhex(digits)))
