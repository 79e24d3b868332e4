"""One HTTP/1.1 connection, byte by byte: what a test must be able to cut, stall and dribble."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import anyio.lowlevel
from anyio.abc import SocketStream

from simulacra.testing.emulators.replies import EmulatedRequest

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class Connection:
    """Reads requests and writes answers on one socket."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def read_request(self) -> EmulatedRequest | None:
        """The next request, or `None` when the client has closed the connection."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not await self.receive():
                return None

        head = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 4]
        request_line, *lines = head.split("\r\n")
        method, path, _ = request_line.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))

        while len(self._buffer) < length:
            if not await self.receive():
                return None

        content = bytes(self._buffer[:length])
        del self._buffer[:length]

        return EmulatedRequest(method, path, headers, content)

    async def receive(self) -> bool:
        """Take in what the client sends; `False` when it has closed the connection."""
        try:
            self._buffer += await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False

        return True

    async def write_head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Emulated')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self._stream.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def write_chunk(self, data: bytes, write_size: int | None) -> None:
        """One HTTP chunk per write; the event loop turns in between, so that the client can read each alone."""
        size = write_size or len(data) or 1

        for start in range(0, len(data), size):
            piece = data[start : start + size]
            await self._stream.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await anyio.lowlevel.checkpoint()

    async def write(self, data: bytes) -> None:
        await self._stream.send(data)
