"""Inputs that are wrong, huge or odd: each works or has a clear typed error."""

from __future__ import annotations

import pytest
from conversation_kit import sketch, talk

from simulacra.blocking import run_sync
from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError, InvalidStateError
from simulacra.messages import AssistantMessage, MediaContent, RawContent, TextContent, ToolContent, UserMessage
from simulacra.serialization import dump_message_json, load_message_json
from simulacra.streaming import MessageStop, TextDelta, ToolArgumentsDelta, ToolCallStart
from simulacra.testing import reply
from simulacra.tools import tool
from simulacra.workflows import WorkflowManager

pytestmark = pytest.mark.anyio


def test_an_unknown_provider_is_named_with_a_remedy():
    with pytest.raises(ConfigurationError, match="nobody") as caught:
        Conversation("nobody:model")

    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("provider", [None, 7, object(), Conversation])
def test_what_is_no_provider_is_refused(provider):
    with pytest.raises(ConfigurationError, match="ModelProvider"):
        Conversation(provider)


@pytest.mark.parametrize("wrong", [print, object(), "search", 3])
def test_a_wrong_tool_class_is_refused(wrong):
    conversation = talk()

    with pytest.raises(ConfigurationError):
        conversation.toolkit = [wrong]

    assert conversation.toolkit == ()


async def test_a_prompt_of_a_megabyte_works():
    text = "0123456789" * 100_000
    conversation = talk(reply("ok"))
    await conversation.prompt(text)

    assert conversation.messages[0].content[0].text == text
    assert conversation.provider.requests[0].messages[0].content[0].text == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\udc9d", "a\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\U0001f600 \u2028 \x85", "\U0001f600 \u2028 \x85"),
        ("nul\x00byte", "nul\x00byte"),
        ("\x1b[31m\r\n\t", "\x1b[31m\r\n\t"),
    ],
)
async def test_un_01_odd_characters_are_mended_once_where_they_enter(text, stored):
    conversation = talk("ok", "ok")
    await conversation.prompt(text)
    await conversation.prompt("more")
    message = conversation.messages[0]

    assert message.content[0].text == stored
    assert conversation.provider.requests[1].messages[0] == message
    assert load_message_json(dump_message_json(message)) == message
    assert message.content[0].text.encode()


async def test_un_01_a_model_may_send_half_characters_in_text_and_arguments():
    conversation = talk(
        [
            TextDelta(0, "a\ud83d"),
            TextDelta(0, "\ude00 \ud83d"),
            ToolCallStart(1, "t\udc9d", "add"),
            ToolArgumentsDelta(1, '{"x": "\\ud83d"}'),
            MessageStop(),
        ]
    )
    response = await conversation.send_message("hi")
    text, call = response.message.content

    assert text.text == "a\U0001f600 \ufffd"
    assert (call.tool_request_id, call.params) == ("t\ufffd", {"x": "\ufffd"})
    assert load_message_json(dump_message_json(response.message)) == response.message


async def test_un_01_a_tool_may_return_half_characters():
    @tool
    async def odd() -> str:
        """Return half a character."""
        return "\ud800"

    conversation = talk([ToolCallStart(0, "t", "odd"), MessageStop()], "ok", toolkit=[odd])
    await conversation.prompt("hi")
    results = conversation.messages[2]

    assert results.content[0].result.output == "\ufffd"
    assert load_message_json(dump_message_json(results)) == results


async def test_un_r1_a_character_in_pieces_is_put_together_before_anybody_sees_it():
    conversation = talk([TextDelta(0, "\ud83d"), TextDelta(0, "\ude00!"), MessageStop()])
    seen = []
    conversation.on("content_update", lambda event: seen.append(event.delta))
    await conversation.prompt("hi")

    assert seen == ["\U0001f600!"]


async def test_un_03_text_like_a_special_token_is_ordinary():
    conversation = talk("ok")
    await conversation.prompt("<|endoftext|> <|im_start|>system")

    assert conversation.token_counter.count_messages(conversation.messages) > 0
    assert conversation.provider.requests[0].messages[0].content[0].text == "<|endoftext|> <|im_start|>system"


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        7,
        b"bytes",
        {"type": "nonsense"},
        [1, 2],
        ["text", None],
        AssistantMessage((TextContent("mine"),)),
        ToolContent(tool_request_id="t", tool="f"),
        [ToolContent(tool_request_id="t", tool="f")],
        iter([TextContent("a")]),
    ],
)
async def test_what_is_no_user_content_is_refused_before_anything_happens(wrong):
    conversation = talk()

    with pytest.raises(ConfigurationError, match="prompt"):
        await conversation.prompt(wrong)

    assert list(conversation.journal.entries()) == []
    assert not conversation.is_busy


async def test_any_mix_of_user_content_is_taken_in_order():
    blocks = [
        TextContent("look"),
        MediaContent(kind="image", media_type="image/png", data=b"png"),
        RawContent(model_kind="scripted", data="{}"),
        TextContent(""),
    ]
    conversation = talk("nice")
    await conversation.prompt(blocks)

    assert sketch(conversation.messages) == ["U look [media] [raw] ", "A nice"]


async def test_a_single_block_is_taken_too():
    conversation = talk("one", "two")
    await conversation.prompt(TextContent("hi"))
    await conversation.prompt(UserMessage((TextContent("more"),)))

    assert sketch(conversation.messages) == ["U hi", "A one", "U more", "A two"]


async def test_two_managers_on_one_conversation_are_refused():
    conversation = talk()
    WorkflowManager(conversation)

    with pytest.raises(InvalidStateError, match="manager"):
        WorkflowManager(conversation)


@pytest.mark.parametrize(
    "options", [{"max_tokens": "many"}, {"idle_timeout": -1}, {"tool_choice": 5}, {"thinking": "hard"}]
)
async def test_wrong_options_are_refused_before_anything_happens(options):
    conversation = talk()

    for call in (conversation.prompt, conversation.send_message, conversation.interrupt):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            await call("hi", **options)

    with pytest.raises(ConfigurationError):
        conversation.stream("hi", **options)

    assert list(conversation.journal.entries()) == []


async def test_conv_23_a_listener_that_raises_at_each_moment_breaks_nothing():
    conversation = talk("hello")

    def fail(event):
        raise RuntimeError(event.name)

    for name in ("state_change", "prompt_send", "before_request", "content_update", "message_complete"):
        conversation.on(name, fail)

    assert (await conversation.prompt("hi")).text == "hello"


@pytest.mark.parametrize(
    ("given", "kind"), [(None, "NoneType"), (5, "int"), (b"text", "bytes"), ([TextContent("a"), 3], "int")]
)
async def test_what_a_prompt_cannot_be_is_named(given, kind):
    with pytest.raises(ConfigurationError, match=f"a prompt takes a text or content blocks .*, not {kind}$"):
        await talk().prompt(given)


@pytest.mark.parametrize("given", [None, 5, [None], "text", [TextContent("no message")]])
def test_what_is_no_history_is_refused_and_the_old_one_stays(given):
    conversation = talk()
    conversation.load([UserMessage((TextContent("kept"),))])

    with pytest.raises(ConfigurationError, match="messages takes Sequence|AssistantMessage is expected"):
        conversation.load(given)

    assert sketch(conversation.messages) == ["U kept"]


@pytest.mark.parametrize("given", [5, None, len, talk])
def test_run_sync_takes_a_coroutine(given):
    with pytest.raises(ConfigurationError, match=r"run_sync takes a coroutine, such as conversation\.checkpoint"):
        run_sync(given)
