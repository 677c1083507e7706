"""A proxy for programs that ask for the names of the manual: wherever they want to go, they get to one port of this
machine. `names.py PORT TO`"""

import asyncio
import sys


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def tunnel(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"CONNECT "):
        writer.close()
        return
    other_reader, other_writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    await asyncio.gather(pump(reader, other_writer), pump(other_reader, writer))


async def main():
    server = await asyncio.start_server(tunnel, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


asyncio.run(main())
