"""What every provider must do, as tests that a plugin's test class inherits.

Example:
    pytestmark = pytest.mark.anyio

    class TestMyProvider(ProviderConformance):
        def emulator(self, script): return MyEmulator(script)
        def provider(self, base_url): return MyProvider(MySDK(base_url=base_url), model="m")
        async def close(self, provider): await provider.client.close()

Each test names the rule of the provider port it checks. The emulator is the vendor's server on loopback.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import anyio

from simulacra.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ConnectionFailedError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamInterruptedError,
    TimeoutExceededError,
)
from simulacra.messages import (
    AssistantMessage,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    Usage,
    UserMessage,
)
from simulacra.provider import ModelProvider, RequestOptions
from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.streaming import MessageStop, TextDelta
from simulacra.testing.driving import Recorder, events_of, failure_of, reply_of, request, user
from simulacra.testing.emulators import EmulatedCall, EmulatedReply, VendorEmulator, http_error

STATUS_ERRORS: dict[int, tuple[type[ProviderError], bool]] = {
    400: (BadRequestError, False),
    401: (AuthenticationError, False),
    403: (PermissionDeniedError, False),
    404: (NotFoundError, False),
    408: (TimeoutExceededError, True),
    409: (BadRequestError, True),
    413: (BadRequestError, False),
    422: (BadRequestError, False),
    429: (RateLimitError, True),
    500: (ServerError, True),
    502: (ServerError, True),
    503: (OverloadedError, True),
    529: (OverloadedError, True),
}
"""What each HTTP status means, and whether repeating helps (the port's table of statuses)."""

WEATHER = ToolDefinition(
    name="weather",
    description="The weather of a city.",
    parameters=(ToolParameter(name="city", type="string", required=True),),
)


class ProviderConformance(ABC):
    """The rules of the provider port. Subclass it, give it an emulator and a provider, and run it with anyio."""

    supports_thinking = True
    """Whether the vendor's wire carries thinking."""

    @abstractmethod
    def emulator(self, script: Sequence[EmulatedReply]) -> VendorEmulator:
        """The vendor's server, with this script."""

    @abstractmethod
    def provider(self, base_url: str) -> ModelProvider:
        """The provider under test, on a client whose own retries are switched on if it has any."""

    @abstractmethod
    async def close(self, provider: ModelProvider) -> None:
        """Close the SDK client of a provider."""

    async def test_text_arrives_as_deltas(self) -> None:
        async with self.emulator([EmulatedReply(text=["Hel", "lo"])]) as emulator:
            provider = self.provider(emulator.base_url)
            events = await events_of(provider, request())
            await self.close(provider)

        assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]
        assert [isinstance(event, MessageStop) for event in events][-1]
        assert sum(isinstance(event, MessageStop) for event in events) == 1
        assert events[-1] == MessageStop("end_turn")

    async def test_empty_reply_is_a_reply(self) -> None:
        message = await self._only_reply(EmulatedReply())

        assert message.content == ()
        assert message.stop_reason == "end_turn"

    async def test_thinking_comes_before_text(self) -> None:
        if not self.supports_thinking:
            return

        message = await self._only_reply(EmulatedReply(thinking=["let me", " see"], text="42"))
        kinds = [type(block) for block in message.content]

        assert kinds == [ThinkingContent, TextContent]
        assert [block.thought for block in message.content if isinstance(block, ThinkingContent)] == ["let me see"]

    async def test_parallel_calls_keep_order_and_arguments(self) -> None:
        calls = [
            EmulatedCall(tool="weather", arguments={"city": "Ulm"}, id="call-a"),
            EmulatedCall(tool="weather", arguments=(), id="call-b"),
        ]
        message = await self._only_reply(EmulatedReply(text="Looking.", calls=calls), tools=(WEATHER,))

        assert message.text == "Looking."
        assert [(call.tool_request_id, call.tool, call.params) for call in message.tool_calls] == [
            ("call-a", "weather", {"city": "Ulm"}),
            ("call-b", "weather", {}),
        ]
        assert message.stop_reason == "tool_use"

    async def test_broken_arguments_are_an_error_of_the_call(self) -> None:
        call = EmulatedCall(tool="weather", arguments=('{"city": "U',))
        message = await self._only_reply(EmulatedReply(calls=[call]), tools=(WEATHER,))

        assert message.tool_calls[0].params == {}
        assert message.tool_calls[0].error

    async def test_usage_has_one_meaning(self) -> None:
        reported = Usage(input_tokens=100, output_tokens=7, cache_read_input_tokens=60)
        message = await self._only_reply(EmulatedReply(text="x", usage=reported))
        silent = await self._only_reply(EmulatedReply(text="x", usage=None))

        assert message.usage is not None
        assert message.usage.input_tokens == 100
        assert message.usage.output_tokens == 7
        assert message.usage.cache_read_input_tokens == 60
        assert silent.usage == Usage()

    async def test_each_status_is_its_typed_error_after_one_request(self) -> None:
        for status, (expected, retryable) in STATUS_ERRORS.items():
            error = await self._only_failure(http_error(status, "no"))

            assert type(error) is expected, f"status {status} gave {error!r}"
            assert isinstance(error, ProviderError)
            assert error.status == status
            assert error.retryable is retryable
            assert error.request_id
            assert error.__cause__ is not None

    async def test_retry_after_is_told(self) -> None:
        error = await self._only_failure(http_error(429, retry_after=171))

        assert isinstance(error, RateLimitError)
        assert error.retry_after == 171

    async def test_used_up_quota_is_no_rate_limit(self) -> None:
        error = await self._only_failure(http_error(429, code="insufficient_quota"))

        assert isinstance(error, QuotaExceededError)
        assert not error.retryable

    async def test_unreachable_server_is_a_connection_error(self) -> None:
        async with self.emulator([]) as emulator:
            address = emulator.base_url

        provider = self.provider(address)
        error, _ = await failure_of(provider)
        await self.close(provider)

        assert isinstance(error, ConnectionFailedError)

    async def test_hang_up_is_a_connection_error(self) -> None:
        assert isinstance(await self._only_failure(EmulatedReply(hangs_up=True)), ConnectionFailedError)

    async def test_cut_stream_is_interrupted(self) -> None:
        error = await self._only_failure(EmulatedReply(text=["Hel", "lo"], cut_after=2), text="Hel")

        assert isinstance(error, StreamInterruptedError)
        assert error.retryable

    async def test_stream_without_its_closing_event_is_interrupted(self) -> None:
        error = await self._only_failure(EmulatedReply(text="Hel", finish=None, usage=None, closed=False), text="Hel")

        assert isinstance(error, StreamInterruptedError)

    async def test_error_inside_a_stream_is_typed(self) -> None:
        reported = {"type": "overloaded_error", "message": "overloaded"}
        error = await self._only_failure(EmulatedReply(text="Hel", error=reported, error_after=2), text="Hel")

        assert isinstance(error, OverloadedError)

    async def test_broken_json_is_a_protocol_error(self) -> None:
        error = await self._only_failure(EmulatedReply(text="Hel", garbage_after=2), text="Hel")

        assert isinstance(error, ProtocolError)

    async def test_answer_without_any_event_is_an_error(self) -> None:
        empty = EmulatedReply(body=[], content_type="text/event-stream")

        assert isinstance(await self._only_failure(empty), ProtocolError | StreamInterruptedError)

    async def test_where_the_bytes_are_cut_changes_nothing(self) -> None:
        said = EmulatedReply(text=["Grüße", " \u2028 ", "😀"], calls=[EmulatedCall(tool="weather", id="a")])
        whole = await self._only_reply(said)

        for size in (1, 7):
            cut = EmulatedReply(text=said.text, calls=said.calls, write_size=size)
            assert await self._only_reply(cut) == whole

    async def test_leaving_early_closes_the_connection(self) -> None:
        stalled = EmulatedReply(text=["Hel", "lo"], stall_after=2)

        async with self.emulator([stalled, EmulatedReply(text="again")]) as emulator:
            provider = self.provider(emulator.base_url)

            async with aclosing(provider.stream(request())) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        break

            await emulator.abandoned()
            assert (await reply_of(provider)).text == "again"
            await self.close(provider)

    async def test_cancel_closes_the_connection(self) -> None:
        silent = EmulatedReply(is_silent=True)
        stalled = EmulatedReply(stall_after=0)

        async with self.emulator([silent, stalled, EmulatedReply(text="again")]) as emulator:
            provider = self.provider(emulator.base_url)

            for count in (1, 2):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(reply_of, provider)
                    await emulator.received(count)
                    tasks.cancel_scope.cancel()

                await emulator.abandoned(count)

            assert (await reply_of(provider)).text == "again"
            await self.close(provider)

    async def test_connection_is_used_again(self) -> None:
        async with self.emulator([EmulatedReply(text="a"), EmulatedReply(text="b")]) as emulator:
            provider = self.provider(emulator.base_url)
            await reply_of(provider)
            await reply_of(provider)
            connections = emulator.open_connections
            await self.close(provider)

        assert connections == 1

    async def test_what_is_prepared_is_what_is_sent(self) -> None:
        recorder = Recorder()
        asked = request(system=("Be brief.",), tools=(WEATHER,), observer=recorder)

        async with self.emulator([EmulatedReply(text="x")]) as emulator:
            provider = self.provider(emulator.base_url)
            prepared = await provider.prepare(asked)
            await reply_of(provider, asked)
            await self.close(provider)
            sent = emulator.requests[0].body

        assert recorder.params == [prepared]
        assert sent == {key: value for key, value in prepared.items() if key in sent}
        assert len(recorder.responses) == 1
        assert len(recorder.chunks) >= 3

    async def test_observer_may_change_the_request(self) -> None:
        recorder = Recorder(temperature=0.5, extra_headers={"x-trace": "42"})

        async with self.emulator([EmulatedReply(text="x")]) as emulator:
            provider = self.provider(emulator.base_url)
            await reply_of(provider, request(observer=recorder))
            await self.close(provider)
            sent = emulator.requests[0]

        assert sent.body["temperature"] == 0.5
        assert sent.headers["x-trace"] == "42"

    async def test_clone_shares_the_client_and_no_options(self) -> None:
        async with self.emulator([EmulatedReply(text="a"), EmulatedReply(text="b")]) as emulator:
            provider = self.provider(emulator.base_url)
            twin = provider.clone()
            twin.model = "other"
            list(twin.context_transformers)
            await reply_of(provider)
            await reply_of(twin)
            models = [str(sent.body.get("model", sent.path)) for sent in emulator.requests]
            connections = emulator.open_connections
            await self.close(provider)

        assert connections == 1
        assert provider.model != "other"
        assert "other" in models[1]
        assert "other" not in models[0]

    async def test_history_of_other_vendors_is_sent_without_what_is_theirs(self) -> None:
        call = ToolContent(tool_request_id="functions.read:0" * 4, tool="weather", params={"city": "Ulm"})
        result = ToolResultContent(
            tool_request_id=call.tool_request_id,
            tool="weather",
            result=ToolSuccessResult.model_validate({"sky": "blue"}),
        )
        foreign = AssistantMessage(
            (
                ThinkingContent("a secret thought", extended={"signature": "foreign-signature"}),
                RawContent(model_kind="another_vendor", data='{"foreign": true}'),
                TextContent(" \n"),
                call,
            )
        )

        async with self.emulator([EmulatedReply(text="x")]) as emulator:
            provider = self.provider(emulator.base_url)
            await reply_of(provider, request(user(), foreign, UserMessage((result,)), tools=(WEATHER,)))
            await self.close(provider)
            sent = emulator.requests[0].content.decode()

        assert "secret" not in sent
        assert "foreign" not in sent
        assert "blue" in sent

    async def test_option_that_the_engine_sets_is_refused(self) -> None:
        async with self.emulator([]) as emulator:
            provider = self.provider(emulator.base_url)
            error, _ = await failure_of(provider, request(options=RequestOptions.model_validate({"messages": []})))
            await self.close(provider)

        assert isinstance(error, ConfigurationError)

    async def _only_reply(self, reply: EmulatedReply, **fields: Any) -> AssistantMessage:
        async with self.emulator([reply]) as emulator:
            provider = self.provider(emulator.base_url)
            message = await reply_of(provider, request(**fields))
            await self.close(provider)

        return message

    async def _only_failure(self, reply: EmulatedReply, *, text: str = "") -> Exception:
        """The error of the one request that was made, after exactly this text."""
        async with self.emulator([reply]) as emulator:
            provider = self.provider(emulator.base_url)
            error, delivered = await failure_of(provider)
            await self.close(provider)

        assert delivered == text

        return error
