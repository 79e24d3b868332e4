"""Runs tool calls: one call in, exactly one result out, whatever the model sent and whatever the tool does."""

from __future__ import annotations

import copy
import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from anyio import CapacityLimiter

from simulacra.errors import ConfigurationError, ToolError, ToolRetry
from simulacra.messages import ToolContent, ToolResultContent
from simulacra.schema import ToolDefinition
from simulacra.tools.arguments import ECHO_LIMIT, ArgumentsError
from simulacra.tools.calling import Calling
from simulacra.tools.context import ToolContext
from simulacra.tools.execution import Execution, Outcome
from simulacra.tools.results import answer, encode_failure, error_result, result_content
from simulacra.tools.shortening import MIN_BYTES
from simulacra.tools.signature import is_asynchronous
from simulacra.tools.tool import Effect, ToolClass
from simulacra.tools.toolkit import ToolEntry, read_toolkit

logger = logging.getLogger("simulacra.tools")

MAX_RETRIES = 3

Arguments = tuple[list[Any], dict[str, Any]]
LateListener = Callable[[ToolContent, ToolResultContent], object]


class ToolRunner:
    """The tools of a run and the way their calls are made.

    Args:
        toolkit: Tool classes.
        max_result_bytes: Bytes of JSON a result may have; what is larger keeps head and tail.
        thread_limit: How many sync tools may run at once.
        on_late_result: Told how a call ended that was answered before its thread came to an end; runs in that thread.

    Raises:
        ConfigurationError: As `check_toolkit`, or a limit cannot be right.
    """

    def __init__(
        self,
        toolkit: Iterable[type[ToolClass]],
        *,
        max_result_bytes: int = 262_144,
        thread_limit: int = 16,
        on_late_result: LateListener | None = None,
    ) -> None:
        self._entries = {entry.name: entry for entry in read_toolkit(toolkit)}
        self.tools = tuple(entry.tool for entry in self._entries.values())
        self.definitions: tuple[ToolDefinition, ...] = tuple(
            entry.definition for entry in self._entries.values() if entry.definition is not None
        )
        self._set_limits(max_result_bytes, thread_limit, on_late_result)

    def limited(
        self, *, max_result_bytes: int, thread_limit: int, on_late_result: LateListener | None = None
    ) -> ToolRunner:
        """A runner of the same tools, read once, for a run of its own; arguments and errors as of the constructor."""
        runner = copy.copy(self)
        runner._set_limits(max_result_bytes, thread_limit, on_late_result)  # noqa: SLF001 -- of its own copy

        return runner

    def _set_limits(self, max_result_bytes: int, thread_limit: int, on_late_result: LateListener | None) -> None:
        if max_result_bytes < MIN_BYTES:
            raise ConfigurationError(f"max_result_bytes is at least {MIN_BYTES}, not {max_result_bytes}")

        if thread_limit < 1:
            raise ConfigurationError(f"thread_limit is at least 1, not {thread_limit}")

        self._max_bytes = max_result_bytes
        self._thread_limit = thread_limit
        self._threads: CapacityLimiter | None = None
        self._on_late_result = on_late_result
        self.retries: Counter[str] = Counter()
        """How often each tool asked for another try."""

    def find(self, name: str) -> type[ToolClass] | None:
        """The tool of that name."""
        entry = self._entries.get(name)

        return None if entry is None else entry.tool

    def is_parallelizable(self, name: str) -> bool:
        """Whether calls of that name may run beside others; unknown ones may, as they only give an error."""
        entry = self._entries.get(name)

        return entry is None or entry.definition is None or entry.definition.parallelizable

    def is_threaded(self, name: str) -> bool:
        """Whether a thread does the calls of that name."""
        entry = self._entries.get(name)

        return entry is not None and _is_threaded(entry.tool)

    def effect(self, name: str) -> Effect:
        """What a call leaves behind; for unknown names the worst."""
        entry = self._entries.get(name)

        return "irreversible" if entry is None else entry.tool.effect

    async def run(self, call: ToolContent, context: ToolContext[Any]) -> ToolResultContent:
        """Run one call.

        Args:
            call: What the model asked for.
            context: The call's own context. While it runs, its `cancellation` is also cancelled by the time limit.

        Returns:
            Its result; failures of the tool and mistakes of the model are results too. Only the cancellation of the
            awaiting task is raised.
        """
        entry = self._entries.get(call.tool)

        if entry is None or entry.calling is None:
            return self._reply(call, self._no_such_tool(call) if entry is None else _broken(entry))

        if context.cancellation.is_cancellation_requested:
            return self._reply(call, error_result("cancelled before execution", "cancelled"))

        if call.error is not None:
            return self._reply(call, _unreadable(call.error, entry.calling))

        try:
            arguments = entry.calling.arrange(call.params, context)
        except ArgumentsError as error:
            return self._reply(call, error_result(str(error), "ArgumentsError"))
        except Exception as error:  # a validator of the tool's own types
            logger.warning("tool=<%s> | checking the arguments raised", call.tool, exc_info=error)

            return self._reply(call, encode_failure(error))

        return self._conclude(call, entry.tool, await self._execute(call, entry, context, arguments))

    def still_running(self, call: ToolContent) -> ToolResultContent:
        """The answer to a call that was told to stop and goes on nevertheless."""
        tool = self.find(call.tool) or ToolClass

        return self._reply(call, _stopped(call.tool, tool, Outcome(stopped="cancelled", still_running=True)))

    async def _execute(
        self, call: ToolContent, entry: ToolEntry, context: ToolContext[Any], arguments: Arguments
    ) -> Outcome:
        tool, (positional, named) = entry.tool, arguments
        execution = Execution(context.cancellation, tool.timeout)
        context.cancellation = execution.token

        async def work() -> Outcome:
            function = functools.partial(tool.for_call(context).execute, *positional, **named)

            if not _is_threaded(tool):
                return await execution.in_task(function, must_await=tool.asynchronous is True)

            on_late = functools.partial(self._note_late, call, tool)

            return await execution.in_thread(function, self._thread_limiter(), on_late)

        return await execution.run(work)

    def _conclude(self, call: ToolContent, tool: type[ToolClass], outcome: Outcome) -> ToolResultContent:
        if outcome.stopped is not None:
            return self._reply(call, _stopped(call.tool, tool, outcome))

        failure = outcome.error

        if failure is None:
            try:
                return answer(call, outcome.value, max_bytes=self._max_bytes)
            except Exception as error:  # noqa: BLE001 -- foreign objects may raise even when asked what they are
                failure = error

        if isinstance(failure, ToolRetry) and self.retries[call.tool] < MAX_RETRIES:
            self.retries[call.tool] += 1

            return self._reply(call, _try_again(call.tool, failure))

        logger.warning("tool=<%s> | the tool raised", call.tool, exc_info=failure)

        return self._reply(call, encode_failure(failure))

    def _reply(self, call: ToolContent, result: dict[str, Any]) -> ToolResultContent:
        return result_content(call, result, max_bytes=self._max_bytes)

    def _note_late(self, call: ToolContent, tool: type[ToolClass], outcome: Outcome) -> None:
        result = self._conclude(call, tool, outcome)
        logger.info("tool=<%s>, tool_request_id=<%s> | ended after it was answered", call.tool, call.tool_request_id)

        if self._on_late_result is not None:
            self._on_late_result(call, result)

    def _thread_limiter(self) -> CapacityLimiter:
        if self._threads is None:  # made here, as it belongs to the event loop that runs the calls
            self._threads = CapacityLimiter(self._thread_limit)

        return self._threads

    def _no_such_tool(self, call: ToolContent) -> dict[str, Any]:
        known = ", ".join(definition.name for definition in self.definitions)
        remedy = f"the tools are: {known}" if known else "there are no tools"

        return error_result(f"invalid tool {call.tool[:ECHO_LIMIT]!r}: it does not exist; {remedy}", "invalid_tool")


def _is_threaded(tool: type[ToolClass]) -> bool:
    """As the tool says itself, or else as its `execute` is written."""
    return not (is_asynchronous(tool.execute) if tool.asynchronous is None else tool.asynchronous)


def _broken(entry: ToolEntry) -> dict[str, Any]:
    failure = encode_failure(entry.failure or ToolError("it has no definition"))

    return error_result(f"{entry.name} cannot be used, its definition failed: {failure['message']}", failure["error"])


def _unreadable(reason: str, calling: Calling) -> dict[str, Any]:
    cut = "the call was cut off before its arguments were complete; " if "EOF while parsing" in reason else ""

    return error_result(
        f"{cut}{calling.definition.name} was not run: {reason}",
        "invalid_arguments",
        expected_schema=calling.definition.input_schema(),
    )


def _stopped(name: str, tool: type[ToolClass], outcome: Outcome) -> dict[str, Any]:
    doubt = {} if tool.effect == "pure" else {"outcome": "unknown"}

    if outcome.stopped == "timeout":
        milliseconds = round((tool.timeout or 0) * 1000)

        return error_result(f"Tool {name} timed out after {milliseconds}ms", "timeout", **doubt)

    advice = f"; check whether it took effect before you call {name} again" if doubt else ""

    return error_result(
        f"cancelled while running{advice}", "still_running" if outcome.still_running else "cancelled", **doubt
    )


def _try_again(name: str, error: ToolRetry) -> dict[str, Any]:
    failure = encode_failure(error)

    return error_result(f"{failure['message']}\nCorrect this and call {name} again.", failure["error"], retry=True)
