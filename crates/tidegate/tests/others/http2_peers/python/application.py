"""An application of ASGI, for hypercorn: what it is asked for, digests of what it gets, and an answer before the body
was read."""

import hashlib


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    parts = scope["path"].split("/")
    if parts[1] == "bytes":
        await answer(send, 200, b"x" * int(parts[2]))
    elif parts[1] == "status":
        await answer(send, int(parts[2]), b"")
    elif parts[1] == "digest":
        count, digest, more = 0, hashlib.sha256(), True
        while more:
            event = await receive()
            count += len(event.get("body", b""))
            digest.update(event.get("body", b""))
            more = event.get("more_body", False)
        text = f"{count} {digest.hexdigest()} over HTTP/{scope['http_version']}"
        await answer(send, 200, text.encode())
    else:
        await answer(send, 403, b"no such upload")


async def answer(send, status, body):
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": body})
