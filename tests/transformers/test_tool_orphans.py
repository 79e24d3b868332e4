from __future__ import annotations

import copy
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulacra.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.transformers import ToolContextTransformer, TransformContext

pytestmark = pytest.mark.anyio


def call(request_id: str, tool: str = "t") -> ToolContent:
    return ToolContent(tool_request_id=request_id, tool=tool)


def result(request_id: str, **facts) -> ToolResultContent:
    return ToolResultContent(tool_request_id=request_id, tool="t", result=ToolSuccessResult(**facts))


def history(*contents) -> list[Message]:
    """Messages from their blocks: `"a"`, an assistant's; `"u"`, a user's; texts stand for text blocks."""
    messages: list[Message] = []

    for place, (role, *blocks) in enumerate(contents):
        kind = AssistantMessage if role == "a" else UserMessage
        content = tuple(TextContent(block) if isinstance(block, str) else block for block in blocks)
        messages.append(kind(content, id=f"{role}{place}"))

    return messages


def shape(messages) -> list[list[str]]:
    return [[message.role[0], *(_word(block) for block in message.content)] for message in messages]


def _word(block) -> str:
    if isinstance(block, TextContent):
        return block.text

    if isinstance(block, ThinkingContent):
        return "thinking"

    sign = "?" if isinstance(block, ToolContent) else "!"
    facts = block.result.model_extra if isinstance(block, ToolResultContent) else {}

    return sign + block.tool_request_id + "".join(str(value) for value in (facts or {}).values())


async def run(messages) -> tuple[list[Message], TransformContext]:
    context = TransformContext(conversation_id="c")

    return await ToolContextTransformer().transform_prompt(messages, context), context


async def test_ctx_7_whole_pairs_are_passed_on_untouched():
    messages = history(
        ("u", "go"), ("a", "ok", call("1"), call("2")), ("u", result("2"), result("1"), "and"), ("a", "x")
    )

    sent, context = await run(messages)

    assert sent is messages
    assert context.explanations == []


async def test_ctx_7_a_call_without_its_result_is_left_out():
    sent, context = await run(history(("u", "go"), ("a", "let me see", call("1", "search")), ("u", "never mind")))

    assert shape(sent) == [["u", "go"], ["a", "let me see"], ["u", "never mind"]]
    assert [(said.action, said.message_ids) for said in context.explanations] == [("dropped", ("a1",))]
    assert "search" in context.explanations[0].reason


async def test_ctx_7_a_message_left_without_content_is_dropped():
    sent, context = await run(history(("u", "go"), ("a", call("1")), ("u", "again"), ("u", result("9"))))

    assert shape(sent) == [["u", "go"], ["u", "again"]]
    assert {ids for said in context.explanations for ids in said.message_ids} == {"a1", "u3"}


async def test_ctx_7_thinking_and_blanks_alone_are_no_message():
    sent, _ = await run(history(("u", "go"), ("a", ThinkingContent("hm"), " ", call("1")), ("u", "again")))

    assert shape(sent) == [["u", "go"], ["u", "again"]]


async def test_ctx_7_a_result_before_its_call_is_an_orphan():
    sent, context = await run(history(("u", result("1"), "hi"), ("a", call("1"), "yes"), ("u", "so")))

    assert shape(sent) == [["u", "hi"], ["a", "yes"], ["u", "so"]]
    assert len(context.explanations) == 2


async def test_ctx_7_a_late_result_moves_up_into_the_next_message():
    sent, context = await run(
        history(
            ("u", "go"), ("a", call("1"), call("2")), ("u", result("2"), "wait"), ("a", "ok"), ("u", result("1"), "b")
        )
    )

    assert shape(sent) == [["u", "go"], ["a", "?1", "?2"], ["u", "!2", "!1", "wait"], ["a", "ok"], ["u", "b"]]
    assert [(said.action, said.message_ids) for said in context.explanations] == [("moved", ("a1", "u4"))]


async def test_ctx_7_a_late_result_gets_a_message_when_another_reply_follows():
    sent, context = await run(
        history(("u", "go"), ("a", call("1")), ("a", "more"), ("u", result("1")), ("a", "end"), ("u", "bye"))
    )

    assert shape(sent) == [["u", "go"], ["a", "?1"], ["u", "!1"], ["a", "more"], ["a", "end"], ["u", "bye"]]
    assert sent[2].id == "results:a1"
    assert len({message.id for message in sent}) == len(sent)
    assert [said.action for said in context.explanations] == ["moved", "dropped"]


async def test_ctx_7_ids_used_again_in_a_later_turn_are_separate_calls():
    first = result("1", at="first")
    second = result("1", at="second")
    messages = history(("a", call("1")), ("u", first), ("a", call("1")), ("u", second))

    assert (await run(messages))[0] is messages

    unanswered = history(("a", call("1"), "x"), ("u", "go on"), ("a", call("1")), ("u", second))

    assert shape((await run(unanswered))[0]) == [["a", "x"], ["u", "go on"], ["a", "?1"], ["u", "!1second"]]


async def test_tl_r4_equal_and_empty_ids_of_one_reply_are_paired_by_place():
    for request_id in ("same", ""):
        whole = history(("a", call(request_id), call(request_id)), ("u", result(request_id), result(request_id)))
        surplus = history(("a", call(request_id)), ("u", result(request_id, n=1), result(request_id, n=2)))
        missing = history(("a", call(request_id, "one"), call(request_id, "two")), ("u", result(request_id)))

        assert (await run(whole))[0] is whole
        assert shape((await run(surplus))[0]) == [["a", f"?{request_id}"], ["u", f"!{request_id}1"]]
        kept = (await run(missing))[0][0].content
        assert [block.tool for block in kept] == ["one"]


async def test_tl_r4_results_of_equal_ids_keep_their_order_when_they_move():
    sent, _ = await run(
        history(
            ("a", call("x", "one"), call("x", "two")), ("u", result("x", n=1)), ("a", "ok"), ("u", result("x", n=2))
        )
    )

    assert shape(sent) == [["a", "?x", "?x"], ["u", "!x1", "!x2"], ["a", "ok"]]


async def test_ctx_7_history_is_never_changed():
    messages = history(("u", "go"), ("a", call("1"), "x"), ("u", "wait"), ("a", call("2")), ("u", result("1"), "y"))
    before = copy.deepcopy(messages)

    sent, _ = await run(messages)

    assert messages == before
    assert sent[0] is messages[0]


async def test_cp_01_a_cut_between_ten_calls_and_their_results_leaves_no_orphan():
    ids = "abcdefghij"
    whole = history(
        ("u", "go"), ("a", *(call(name) for name in ids)), *(("u", result(name)) for name in ids), ("u", "so?")
    )

    kept, _ = await run(whole[-6:])
    everything, _ = await run(whole)

    assert shape(kept) == [["u", "so?"]]
    assert shape(everything) == [
        ["u", "go"],
        ["a", *(f"?{name}" for name in ids)],
        ["u", *(f"!{name}" for name in ids)],
        ["u", "so?"],
    ]


async def test_w_ctx_2_orphan_results_are_removed():
    sent, context = await run(history(("u", result("1"), "hi", result("2")), ("a", "yes")))

    assert shape(sent) == [["u", "hi"], ["a", "yes"]]
    assert context.explanations[0].action == "dropped"


class CountingTuple(tuple):
    """Content that counts how often it is walked through."""

    __slots__ = ()
    walks = Counter()

    def __iter__(self):
        CountingTuple.walks[id(self)] += 1

        return super().__iter__()


async def test_w_ctx_3_each_message_is_walked_through_a_fixed_number_of_times():
    for pairs in (500, 4000):
        CountingTuple.walks.clear()
        messages = []

        for number in range(pairs):
            messages += history(
                ("a", call(f"{number % 7}")), ("u", result(f"{number % 7}")), ("a", call("orphan"), "x")
            )

        for message in messages:
            object.__setattr__(message, "content", CountingTuple(message.content))

        sent, _ = await run(messages)

        assert len(sent) == 3 * pairs
        assert max(CountingTuple.walks.values()) <= 2


IDS = st.sampled_from(["", "a", "b"])
ASSISTANT_BLOCKS = st.one_of(st.sampled_from(["p", "q"]).map(TextContent), IDS.map(call))
USER_BLOCKS = st.one_of(st.sampled_from(["r", "s"]).map(TextContent), IDS.map(result))
MESSAGES = st.one_of(
    st.lists(ASSISTANT_BLOCKS, min_size=1, max_size=4).map(lambda blocks: AssistantMessage(tuple(blocks))),
    st.lists(USER_BLOCKS, min_size=1, max_size=4).map(lambda blocks: UserMessage(tuple(blocks))),
)


def texts(messages) -> list[str]:
    return [block.text for message in messages for block in message.content if isinstance(block, TextContent)]


def blocks(message, kind) -> Counter[str]:
    return Counter(block.tool_request_id for block in message.content if isinstance(block, kind))


@given(messages=st.lists(MESSAGES, max_size=9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_cp_r1_any_history_becomes_valid_keeps_its_texts_and_stays(messages):
    sent, context = await run(messages)

    for before, message, after in zip([None, *sent], sent, [*sent[1:], None], strict=False):
        assert message.content

        if isinstance(message, AssistantMessage):
            answers = blocks(after, ToolResultContent) if isinstance(after, UserMessage) else Counter()
            assert blocks(message, ToolContent) == answers
        else:
            calls = blocks(before, ToolContent) if isinstance(before, AssistantMessage) else Counter()
            assert blocks(message, ToolResultContent) == calls

    assert texts(sent) == texts(messages)
    assert (sent is messages) == (not context.explanations)

    again, more = await run(sent)
    assert again is sent
    assert more.explanations == []


async def test_w_ctx_1_nothing_empty_is_made():
    sent, _ = await run(history(("a", call("1"), ""), ("u", result("2"), " "), ("u", "x")))

    assert shape(sent) == [["u", "x"]]
