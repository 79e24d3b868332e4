"""How a call ends, and what is in history then."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import Heard, sketch, talk

from simulacra.errors import (
    BadRequestError,
    ConfigurationError,
    ContextWindowError,
)
from simulacra.messages import (
    AssistantMessage,
    Response,
    TextContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.testing import calls, fault, fault_after, reply, stall
from simulacra.tools import tool
from simulacra.transformers import (
    ContextTransformer,
)

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_conv_5_the_reply_is_there_when_prompt_returns():
    conversation = talk("hello")
    response = await conversation.prompt("hi")

    assert isinstance(response, Response)
    assert (response.text, response.stop_reason, response.cancelled) == ("hello", "end_turn", False)
    assert conversation.messages[-1] is response.message
    assert (conversation.state, conversation.is_busy, conversation.turn_count) == ("idle", False, 1)


async def test_conv_5_with_tools_the_whole_loop_is_done():
    conversation = talk(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])
    response = await conversation.prompt("1 + 2?")

    assert response.text == "3"
    assert sketch(conversation.messages) == ["U 1 + 2?", "A <add>", "U =add", "A 3"]
    assert conversation.turn_count == 2


async def test_w_conv_2_the_reply_is_in_history_after_prompt():
    conversation = talk("hello")
    await conversation.prompt("hi")

    assert sketch(conversation.messages) == ["U hi", "A hello"]


async def test_conv_6_success_failure_and_cancel_cannot_be_mixed_up(ask):
    conversation = talk("hello", fault(BadRequestError("no")), stall())
    good = await ask(lambda: conversation.prompt("1"))
    bad = await ask(lambda: conversation.prompt("2"))
    cut = await ask(lambda: conversation.prompt("3"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)

    assert (good.outcome.stop_reason, good.error) == ("end_turn", None)
    assert (bad.outcome, type(bad.error)) == (None, BadRequestError)
    assert (cut.outcome.stop_reason, cut.outcome.message, cut.error) == ("cancelled", None, None)


async def test_conv_7_a_user_message_is_journalled_at_once_and_in_history_at_the_end(ask):
    conversation = talk(stall())
    await ask(lambda: conversation.prompt("hi"))
    (admitted,) = conversation.journal.entries(kinds=["user_admitted"])

    assert sketch([admitted.body["message"]]) == ["U hi"]
    assert conversation.messages == ()
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)
    assert sketch(conversation.messages) == ["U hi"]


@pytest.mark.parametrize("delivered", [0, 3])
async def test_d_2_a_failed_turn_leaves_history_and_the_next_prompt_works(delivered):
    conversation = talk("one", fault_after(delivered, BadRequestError("no")), "three")
    await conversation.prompt("1")
    before = conversation.messages

    with pytest.raises(BadRequestError) as caught:
        await conversation.prompt("2")

    (attempt,) = conversation.journal.attempts()

    assert conversation.messages is before
    assert sketch(attempt.inputs) == ["U 2"]
    assert attempt.partial == caught.value.partial
    assert (await conversation.prompt("3")).text == "three"
    assert sketch(conversation.provider.requests[-1].messages) == ["U 1", "A one", "U 3"]


async def test_conv_7_tool_results_stay_when_the_request_after_them_fails():
    conversation = talk(calls(("add", {"a": 1, "b": 2})), fault(BadRequestError("no")), "3", toolkit=[add])

    with pytest.raises(BadRequestError):
        await conversation.prompt("1 + 2?")

    assert sketch(conversation.messages) == ["U 1 + 2?", "A <add>", "U =add"]
    assert (await conversation.prompt("so?")).text == "3"
    assert sketch(conversation.provider.requests[-1].messages) == ["U 1 + 2?", "A <add>", "U =add", "U so?"]


async def test_cp_12_what_was_too_large_is_not_sent_again():
    huge = "x" * 1_000_000
    conversation = talk(fault(ContextWindowError("too long", status=400)), "hello")

    with pytest.raises(ContextWindowError):
        await conversation.prompt(huge)

    await conversation.prompt("hi")

    assert sketch(conversation.provider.requests[-1].messages) == ["U hi"]


async def test_d_1_a_reply_is_stored_as_it_came_out_of_the_transformers():
    class Loud(ContextTransformer):
        async def transform_completion(self, message, context):
            return AssistantMessage((TextContent(message.text.upper()),), id="another", stop_reason="end_turn")

    conversation = talk("hello", context_transformer=Loud())
    response = await conversation.prompt("hi")

    assert response.text == conversation.messages[-1].text == "HELLO"
    assert response.message.id != "another"


@pytest.mark.parametrize(
    "nothing", ["", " \n", [], [TextContent("")], [TextContent(""), TextContent("")], UserMessage(())]
)
async def test_conv_8_nothing_to_send_is_refused_before_anything_happens(nothing):
    conversation = talk()
    heard = Heard(conversation)

    for send in (conversation.prompt, conversation.send_message, conversation.interrupt):
        with pytest.raises(ConfigurationError, match="content"):
            await send(nothing)

    with pytest.raises(ConfigurationError):
        conversation.stream(nothing)

    assert isinstance(ConfigurationError("x"), ValueError)
    assert (heard, list(conversation.journal.entries())) == ([], [])


async def test_conv_8_an_empty_reply_is_an_empty_text_and_blank_blocks_stay_as_they_came():
    conversation = talk(reply(), reply("  "), "well")
    first = await conversation.prompt("1")
    second = await conversation.prompt("2")

    assert (first.text, first.stop_reason, first.message.content) == ("", "end_turn", ())
    assert second.text == "  "
    assert (await conversation.prompt("3")).text == "well"
    assert sketch(conversation.messages) == ["U 1", "A ", "U 2", "A   ", "U 3", "A well"]


async def test_conv_30_prompt_is_send_message_with_a_text():
    by_text, by_blocks = talk("hello"), talk("hello")
    await by_text.prompt("hi")
    await by_blocks.send_message([TextContent(text="hi")])

    assert sketch(by_text.messages) == sketch(by_blocks.messages)
    assert by_text.messages[0].content[0].text == by_blocks.messages[0].content[0].text == "hi"


async def test_conv_30_send_message_is_one_exchange_and_leaves_tools_to_the_caller():
    conversation = talk(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])
    response = await conversation.send_message("1 + 2?")
    (call,) = response.message.tool_calls
    result = ToolResultContent(
        tool_request_id=call.tool_request_id, tool="add", result=ToolSuccessResult.model_validate({"output": 3})
    )

    assert response.stop_reason == "tool_use"
    assert (await conversation.send_message([result])).text == "3"
    assert sketch(conversation.messages) == ["U 1 + 2?", "A <add>", "U =add", "A 3"]
