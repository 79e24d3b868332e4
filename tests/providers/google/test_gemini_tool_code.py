"""Calls that Gemini writes as code, read as calls."""

from __future__ import annotations

import pytest
from gemini_wire import add
from simulacra_google import GoogleToolCodeContextTransformer

from simulacra.conversation import Conversation
from simulacra.messages import AssistantMessage, TextContent, ThinkingContent, ToolContent
from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.testing import EmulatedReply
from simulacra.transformers import TransformContext

pytestmark = pytest.mark.anyio

FIND = ToolDefinition(
    name="find",
    description="Find.",
    parameters=(
        ToolParameter(name="what", type="string", required=True),
        ToolParameter(name="where", type="string"),
        ToolParameter(name="limit", type="number"),
    ),
)
PRINT = ToolDefinition(name="print", description="Print.", parameters=(ToolParameter(name="page", type="number"),))


def fenced(*lines):
    return "\n".join(["```tool_code", *lines, "```"])


async def read(*texts, tools=(FIND,), stop_reason="end_turn", **extended):
    content = [TextContent(text, **extended) for text in texts]
    message = AssistantMessage(content, stop_reason=stop_reason)
    context = TransformContext(conversation_id="c", tools=tools)

    return await GoogleToolCodeContextTransformer().transform_completion(message, context)


async def params(argument_text, tools=(FIND,)):
    """The arguments of one call, or `None` if it is left in the text."""
    message = await read(fenced(f"find({argument_text})"), tools=tools)

    return message.tool_calls[0].params if message.tool_calls else None


@pytest.mark.parametrize(
    "line", ['find("a")', 'print(find("a"))', 'default_api.find("a")', 'print(default_api.find("a"))', '  find("a")']
)
async def test_goo_9_a_call_is_read_in_every_dress(line):
    message = await read(fenced(line))

    assert [(call.tool, call.params) for call in message.tool_calls] == [("find", {"what": "a"})]


async def test_goo_9_several_calls_of_one_block_and_several_blocks_are_read():
    message = await read(
        "Look.\n" + fenced('find("a")', "", "# then", 'print(find("b"))') + "\nAnd\n" + fenced('find("c")')
    )

    assert [call.params["what"] for call in message.tool_calls] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "lines",
    [
        ['lose("a")'],
        ['find("a")', 'lose("b")'],
        ['x = find("a")'],
        ["find(x)"],
        ["find(1 + 1)"],
        ['find("a"'],
        ["find(find('a'))"],
        ["print()"],
        ["print(find('a'), find('b'))"],
        ["os.find('a')"],
        ["import os"],
        ["'text'"],
        [""],
        ["find(*['a'])"],
        ["find(**{'what': 'a'})"],
        ["find('a', what='b')"],
        ["find('a', 'b', 1, 2)"],
        ["find(f'{1}')"],
        ["find(b'a')"],
        ["find(1e999)"],
        ["find({1: 2})"],
        ["find('a', **{})"],
        ["(" * 500 + ")" * 500],
    ],
)
async def test_w_goo_5_what_cannot_be_read_completely_stays_as_it_is(lines):
    text = "See:\n" + fenced(*lines)
    message = await read(text)

    assert [block.text for block in message.content] == [text]
    assert message.stop_reason == "end_turn"


async def test_w_goo_5_a_block_that_is_cut_off_stays_as_it_is():
    assert (await read('```tool_code\nfind("a")')).tool_calls == ()


async def test_goo_9_a_tool_named_print_is_a_tool():
    message = await read(fenced("print(3)"), tools=(PRINT,))

    assert [(call.tool, call.params) for call in message.tool_calls] == [("print", {"page": 3})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('what="a", limit=3', {"what": "a", "limit": 3}),
        ("'a', 'b', 3", {"what": "a", "where": "b", "limit": 3}),
        ("'a', limit=-3.5", {"what": "a", "limit": -3.5}),
        ("what='it\\'s', where=\"two\\nlines\"", {"what": "it's", "where": "two\nlines"}),
        ("what=True, where=true, limit=False", {"what": True, "where": True, "limit": False}),
        ("what=false, where=None, limit=null", {"what": False, "where": None, "limit": None}),
        ("what=[1, 'b', [true]]", {"what": [1, "b", [True]]}),
        ("what={'a': {'b': [null]}}", {"what": {"a": {"b": [None]}}}),
        (r"what='\d'", {"what": r"\d"}),
        ("what='a',\n  where='b'", {"what": "a", "where": "b"}),
        ("unknown=1", {"unknown": 1}),
        ("", {}),
    ],
)
async def test_goo_10_arguments_are_literals_by_keyword_or_by_position(text, expected):
    assert await params(text) == expected


async def test_goo_11_a_block_becomes_a_newline_and_its_calls_follow_the_text():
    message = await read("a" + fenced('find("1")') + "\nb", "c\n" + fenced('find("2")'))

    assert [block.text if isinstance(block, TextContent) else block.params["what"] for block in message.content] == [
        "a\n\nb",
        "1",
        "c\n\n",
        "2",
    ]


async def test_goo_11_a_text_left_blank_is_dropped_unless_it_carries_a_signature():
    blank = await read(fenced('find("a")'))
    signed = await read(fenced('find("a")'), extended={"thought_signature": "U0lH"})

    assert [block.type for block in blank.content] == ["tool"]
    assert [block.type for block in signed.content] == ["text", "tool"]


@pytest.mark.parametrize(
    ("before", "after"), [("end_turn", "tool_use"), ("other", "tool_use"), ("max_tokens", "max_tokens")]
)
async def test_goo_12_the_reply_stops_for_its_calls(before, after):
    assert (await read(fenced('find("a")'), stop_reason=before)).stop_reason == after


async def test_goo_13_each_call_has_an_id_of_its_own():
    message = await read(fenced('find("a")', 'find("a")'), fenced('find("a")'))

    assert len({call.tool_request_id for call in message.tool_calls}) == 3
    assert all(call.tool_request_id for call in message.tool_calls)


async def test_other_blocks_and_fences_pass_as_they_are():
    content = (ThinkingContent(fenced('find("a")')), TextContent('```python\nfind("a")\n```'), TextContent("hi"))
    message = AssistantMessage(content, stop_reason="end_turn")
    context = TransformContext(conversation_id="c", tools=(FIND,))

    assert await GoogleToolCodeContextTransformer().transform_completion(message, context) is message


async def test_calls_written_as_code_are_run_and_answered(serve):
    code = "I add.\n" + fenced("print(default_api.add(a=1))")

    async with serve([EmulatedReply(text=code), EmulatedReply(text="3")]) as (emulator, provider):
        response = await Conversation(provider, toolkit=[add]).prompt("1 + 2?")

    [_, called, answered] = emulator.requests[1].body["contents"]
    assert response.text == "3"
    assert called["parts"][1] == {"functionCall": {"name": "add", "args": {"a": 1}}}
    assert answered["parts"][0]["functionResponse"]["response"]["output"]["result"] is True


async def test_it_can_be_switched_off(serve):
    code = fenced("add(a=1)")

    async with serve([EmulatedReply(text=code)], context_transformers=[]) as (_, provider):
        message = (await Conversation(provider, toolkit=[add]).prompt("1 + 2?")).message

    assert isinstance(message.content[0], TextContent)
    assert not any(isinstance(block, ToolContent) for block in message.content)
