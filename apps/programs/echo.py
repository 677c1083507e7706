"""An upstream that answers with what it was asked: the line of the request, and each field with its name in lower case."""

import http.server
import sys


class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        fields = "".join(f"{name.lower()}: {value}\n" for name, value in self.headers.items())
        body = f"<!doctype html><title>echo</title><pre>{self.command} {self.path}\n{fields}</pre>\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
