"""The base of the vendor emulators: a server on loopback, in a thread of its own, that plays a script.

Having its own thread it serves sync code, asyncio and trio alike.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketStream, TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from simulacra import registry
from simulacra.errors import ConfigurationError
from simulacra.rules import RuleTable, Violation, Wire
from simulacra.testing.emulators.connection import Connection
from simulacra.testing.emulators.replies import EmulatedReply, EmulatedRequest, http_error, misdirected
from simulacra.testing.scripted import UnexpectedRequestError, UnusedStepsError

RequestListener: TypeAlias = Callable[[EmulatedRequest, tuple[Violation, ...]], object]
Script: TypeAlias = Sequence[EmulatedReply] | Callable[[EmulatedRequest], EmulatedReply]
_GARBAGE = b'data: {"broken": \n\n'


class VendorEmulator(ABC):
    """A vendor's server that answers from a script.

    Use it as a context manager, `with` or `async with`. Leaving it raises when a request came that the script does
    not know, or when replies are left over.

    Args:
        script: The replies in order, or a function from a request to its reply.
        rules: What is refused with the vendor's error, before the script sees it; the rules of the vendor's plugin when
            not given, `None` for nothing.
        port: Where to serve; a free one when 0.
        on_request: Told of each request, in the server's thread, and of the rules it breaks.
    """

    vendor: str
    """The vendor's word in the registry, where its rules come from."""
    prefix: str
    """Path that the vendor's base URL ends with."""
    endpoints: str
    """A regular expression for the end of the paths it serves; anything else is answered as not found."""
    request_id_header = "x-request-id"
    """In which the vendor names its id of a request."""

    def __init__(
        self,
        script: Script,
        *,
        rules: RuleTable | Literal["vendor"] | None = "vendor",
        port: int = 0,
        on_request: RequestListener | None = None,
    ) -> None:
        self.rules = registry.plugin(self.vendor).rules if rules == "vendor" else rules
        self.requests: list[EmulatedRequest] = []
        """Every request that the script answers, in the order they came."""
        self.side_requests: list[EmulatedRequest] = []
        """Requests that are answered beside the script: those that count tokens, or ask for what is not served."""
        self.refused: list[tuple[EmulatedRequest, tuple[Violation, ...]]] = []
        """Requests that break a rule, each with what it breaks; the script sees none of them."""
        self.open_connections = 0
        self._script = script
        self._failure: Exception | None = None
        self._changed = threading.Condition()
        self._portal: AbstractContextManager[BlockingPortal] | None = None
        self._serving: Future[Any] | None = None
        self._port = port
        self._on_request = on_request

    @property
    def base_url(self) -> str:
        """What the vendor's client is given as its base URL."""
        return f"http://127.0.0.1:{self._port}{self.prefix}"

    @abstractmethod
    def render_events(self, reply: EmulatedReply, request: EmulatedRequest) -> list[bytes]:
        """The events of a streamed reply, as the vendor writes them."""

    @abstractmethod
    def render_whole(self, reply: EmulatedReply, request: EmulatedRequest) -> Any:
        """The JSON of a reply that is not streamed."""

    @abstractmethod
    def render_error(self, status: int, error: dict[str, Any]) -> Any:
        """The JSON of an error answer."""

    @abstractmethod
    def render_error_event(self, error: dict[str, Any]) -> bytes:
        """An error inside a stream."""

    def side_reply(self, request: EmulatedRequest) -> EmulatedReply | None:
        """The answer to a request that the script does not see; `None` for all others."""
        del request

        return None

    def vendor_headers(self, request: EmulatedRequest) -> dict[str, str]:
        """What the vendor tells in the headers of every answer, such as its limits."""
        del request

        return {}

    def wire_of(self, request: EmulatedRequest) -> Wire:
        """What the rules look at: the body, as a rule."""
        body = request.body

        return body if isinstance(body, dict) else {}

    def is_streamed(self, request: EmulatedRequest) -> bool:
        """Whether a request asks for a stream."""
        return bool((request.body or {}).get("stream"))

    def start(self) -> None:
        """Begin to serve.

        Raises:
            ConfigurationError: The port is taken, or is none.
        """
        self._portal = start_blocking_portal("asyncio")
        portal = self._portal.__enter__()

        try:
            self._serving, self._port = portal.start_task(self._serve)
        except (OSError, OverflowError) as error:
            self._portal.__exit__(None, None, None)  # its thread would keep the program from ending
            self._portal = None
            raise ConfigurationError(
                f"port {self._port} cannot be served: {error}. Leave it out for a free one"
            ) from error

    def stop(self) -> None:
        """Stop serving and close every connection."""
        if self._portal is not None and self._serving is not None:
            self._serving.cancel()
            self._portal.__exit__(None, None, None)
            self._portal = None

    def check(self) -> None:
        """Raise what went wrong with the script.

        Raises:
            UnexpectedRequestError: A request came that the script has no reply for.
            UnusedStepsError: Replies are left over.
        """
        if self._failure is not None:
            raise self._failure

        if not callable(self._script) and len(self.requests) < len(self._script):
            raise UnusedStepsError(
                f"{len(self._script) - len(self.requests)} replies of the emulator were not asked for"
            )

    async def received(self, count: int = 1, *, timeout: float = 5.0) -> None:
        """Wait until `count` requests have come.

        Args:
            count: How many, from the start.
            timeout: Real seconds, after which the test fails.
        """
        await self._wait(lambda: len(self.requests) >= count, f"{count} requests", timeout)

    async def abandoned(self, count: int = 1, *, timeout: float = 5.0) -> None:
        """Wait until the client has closed the connections of `count` unfinished replies.

        Args:
            count: How many, from the start.
            timeout: Real seconds, after which the test fails.
        """
        await self._wait(lambda: sum(r.is_abandoned for r in self.requests) >= count, f"{count} leave", timeout)

    async def disconnected(self, *, timeout: float = 5.0) -> None:
        """Wait until no client holds a connection open.

        Args:
            timeout: Real seconds, after which the test fails.
        """
        await self._wait(lambda: not self.open_connections, "the end of every connection", timeout)

    def __enter__(self) -> Self:
        self.start()

        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

        if kind is None:
            self.check()

    async def __aenter__(self) -> Self:
        await anyio.to_thread.run_sync(self.start)

        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.stop)

        if kind is None:
            self.check()

    async def _wait(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(condition, timeout)

        if not await anyio.to_thread.run_sync(wait, abandon_on_cancel=True):
            raise AssertionError(f"the emulator waited {timeout} s for {what}; it saw {len(self.requests)} requests")

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _serve(self, *, task_status: TaskStatus[int]) -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self._port)

        async with listener:
            task_status.started(listener.extra(SocketAttribute.local_port))  # noqa: S610 -- no query
            await listener.serve(self._handle)

    async def _handle(self, stream: SocketStream) -> None:
        connection = Connection(stream)
        self.open_connections += 1

        try:
            async with stream:
                while (request := await connection.read_request()) is not None:
                    if not await self._answer(connection, request):
                        break
        finally:
            self.open_connections -= 1
            self._tell()

    async def _answer(self, connection: Connection, request: EmulatedRequest) -> bool:
        """Answer; whether the connection may go on. The client is watched: it may leave at any time."""
        reply = self._next_reply(request)
        keeps = False

        async def watch() -> None:
            while await connection.receive():
                pass

            request.abandon()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)

            try:
                keeps = await self._write(connection, request, reply)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                request.abandon()

            tasks.cancel_scope.cancel()

        self._tell()

        return keeps and not request.is_abandoned

    def _next_reply(self, request: EmulatedRequest) -> EmulatedReply:
        beside = misdirected(request, self.endpoints) or self.side_reply(request)

        if beside is not None:
            self.side_requests.append(request)
            return beside

        violations = self._violations(request)

        if self._on_request is not None:
            self._on_request(request, violations)

        if violations:
            self.refused.append((request, violations))
            self._tell()
            return self._refusal(violations[0])

        number = len(self.requests)
        self.requests.append(request)
        self._tell()

        try:
            _ = request.body  # every body passes a strict parser, whatever the script says

            return self._script(request) if callable(self._script) else self._script[number]
        except IndexError:
            error: Exception = UnexpectedRequestError(f"request {number + 1} came, but the script has {number} replies")
        except Exception as raised:  # noqa: BLE001 -- raised where the emulator is left
            error = raised

        self._failure = self._failure or error

        return http_error(400, f"emulator: {error}")

    def _violations(self, request: EmulatedRequest) -> tuple[Violation, ...]:
        """What a request breaks; a body that is no JSON is the script's failure, further on."""
        if self.rules is None:
            return ()

        try:
            wire = self.wire_of(request)
        except ValueError:
            return ()

        return self.rules.check(wire)

    def _refusal(self, violation: Violation) -> EmulatedReply:
        message = f"{violation.path}: {violation.reason}"

        return EmulatedReply(
            status=violation.status, error={"message": message, "code": violation.code, "param": violation.path}
        )

    async def _write(self, connection: Connection, request: EmulatedRequest, reply: EmulatedReply) -> bool:
        if reply.hangs_up:
            return False

        if reply.is_silent:
            await anyio.sleep_forever()

        is_stream = reply.status < 400 and reply.body is None and self.is_streamed(request)
        headers = {self.request_id_header: f"req_{len(self.requests)}", **self.vendor_headers(request), **reply.headers}

        if is_stream:
            headers = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked", **headers}
            await connection.write_head(reply.status, headers)
            return await self._write_events(connection, reply, self._events(reply, request))

        if isinstance(reply.body, list):
            headers = {"content-type": reply.content_type, "transfer-encoding": "chunked", **headers}
            await connection.write_head(reply.status, headers)
            return await self._write_events(connection, reply, reply.body)

        content = self._content(reply, request)
        headers = {"content-type": reply.content_type, "content-length": str(len(content)), **headers}
        await connection.write_head(reply.status, headers)
        await connection.write(content)

        return True

    async def _write_events(self, connection: Connection, reply: EmulatedReply, events: list[bytes]) -> bool:
        ends = [end for end in (reply.cut_after, reply.stall_after) if end is not None]

        for event in events[: min(ends, default=len(events))]:
            await connection.write_chunk(event, reply.write_size)

        if reply.stall_after is not None:
            await anyio.sleep_forever()

        if reply.cut_after is None:
            await connection.write(b"0\r\n\r\n")

        return reply.cut_after is None

    def _events(self, reply: EmulatedReply, request: EmulatedRequest) -> list[bytes]:
        if reply.error is not None and reply.error_after is None:  # it comes in place of the end
            reply = replace(reply, finish=None, usage=None, closed=False)

        events = self.render_events(reply, request)

        if reply.garbage_after is not None:
            events.insert(reply.garbage_after, _GARBAGE)

        if reply.error is not None:
            events = [*events[: reply.error_after], self.render_error_event(dict(reply.error))]

        return events

    def _content(self, reply: EmulatedReply, request: EmulatedRequest) -> bytes:
        body = reply.body

        if body is None:
            failed = reply.status >= 400
            body = (
                self.render_error(reply.status, dict(reply.error or {}))
                if failed
                else self.render_whole(reply, request)
            )

        if isinstance(body, str):
            return body.encode()

        return body if isinstance(body, bytes) else json.dumps(body).encode()
