"""Invariants over arbitrary replies, histories and failures, each through a whole conversation."""

from __future__ import annotations

from itertools import count

import pytest
from dealt_replies import TOOLKIT, runs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_strategies import any_text
from sendable import pairs, request_faults, texts_of, wire_faults

from simulacra.clock import use_clock
from simulacra.conversation import Conversation
from simulacra.errors import AuthenticationError
from simulacra.events import ContentUpdate
from simulacra.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolErrorResult,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.serialization import dump_message_json, load_message_json
from simulacra.testing import FakeClock, ScriptedProvider, calls, fault, reply
from simulacra.transformers import ToolContextTransformer, TransformContext
from simulacra.workflows import WorkflowManager

pytestmark = pytest.mark.anyio
PROFILE = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
IDS = st.sampled_from(["", "a", "b"])
RESULTS = st.sampled_from([ToolSuccessResult(), ToolErrorResult(message="no")])
CALLS = IDS.map(lambda given: ToolContent(tool_request_id=given, tool="quick"))
ANSWERS = st.tuples(IDS, RESULTS).map(
    lambda drawn: ToolResultContent(tool_request_id=drawn[0], tool="quick", result=drawn[1])
)
TEXTS = st.sampled_from(["", " ", "one", "two", "three"]).map(TextContent)
THOUGHTS = st.just(ThinkingContent("hmm"))
HISTORIES = st.lists(
    st.lists(TEXTS | ANSWERS, max_size=3).map(lambda blocks: UserMessage(tuple(blocks)))
    | st.lists(TEXTS | CALLS | CALLS | THOUGHTS, max_size=3).map(lambda blocks: AssistantMessage(tuple(blocks))),
    max_size=7,
)


@PROFILE
@given(pieces=st.lists(any_text, max_size=6), streamed=st.booleans())
async def test_st_r1_the_deltas_of_a_reply_add_up_to_what_is_stored_and_loaded(pieces: list[str], streamed: bool):
    conversation = Conversation(ScriptedProvider([reply(chunks=pieces)]))
    heard: list[str] = []
    conversation.on(ContentUpdate, lambda event: heard.append(event.delta))

    if streamed:
        async with conversation.stream("go") as stream:
            taken = [delta async for delta in stream.text_deltas()]
            response = await stream.response()

        assert taken == heard
    else:
        response = await conversation.prompt("go")

    assert "".join(heard) == response.text
    "".join(heard).encode()  # no half of a character anywhere
    stored = conversation.messages[-1]
    assert stored == response.message
    assert load_message_json(dump_message_json(stored)) == stored


@PROFILE
@given(history=HISTORIES)
async def test_cp_r1_whatever_is_loaded_the_request_is_whole_and_repairing_it_again_changes_nothing(history):
    provider = ScriptedProvider(otherwise="Fine.")
    conversation = Conversation(provider)
    conversation.load([UserMessage((TextContent("first"),)), *history])
    before = conversation.messages
    await conversation.prompt("last")
    sent = provider.requests[-1].messages
    context = TransformContext(conversation_id="x")

    assert not [fault for fault in request_faults(sent) if "is empty" not in fault or not _has_empty(history)]
    assert not wire_faults(provider.requests[-1])
    assert _said(sent) == ["first", *_said(history), "last"]
    assert await ToolContextTransformer().transform_prompt(sent, context) is sent
    assert conversation.messages[: len(before)] == before


@st.composite
def loops(draw: st.DrawFn) -> list[list[tuple[str, str]]]:
    """Rounds of a tool loop: tools and the ids their calls come with."""
    call = st.tuples(st.sampled_from(["quick", "failing", "slow", "lonely"]), IDS)

    return draw(st.lists(st.lists(call, min_size=1, max_size=4), min_size=1, max_size=3))


@PROFILE
@given(rounds=loops(), broken=st.sets(st.integers(1, 5), max_size=3))
async def test_w_wf_6_a_call_runs_once_and_has_one_result_however_often_the_loop_fails_and_goes_on(rounds, broken):
    tags = count(1)
    script = [calls(*((tool, {"tag": next(tags)}, given) for tool, given in round_)) for round_ in rounds]
    wanted = [(block[0], tag) for tag, block in enumerate((call for round_ in rounds for call in round_), 1)]
    steps = [*script, reply("Done.")]

    for place in sorted(broken):
        steps.insert(place, fault(AuthenticationError("expired")))

    with use_clock(FakeClock(autojump=True)):
        conversation = Conversation(ScriptedProvider(steps), toolkit=TOOLKIT)
        manager = WorkflowManager(conversation)
        result = await manager.run("go")

        while result.reason == "error":
            result = await manager.resume()

    assert result.text == "Done."
    assert [*runs[conversation.id].items()] == [*((tag, 1) for tag in sorted(runs[conversation.id]))]
    assert sorted(runs[conversation.id]) == [tag for _, tag in wanted]
    messages = conversation.messages
    assert [_told(messages[at[0]].content[at[1]]) for _, at in sorted(pairs(messages))] == [
        (tool, None if tool == "failing" else tag) for tool, tag in wanted
    ]


def _told(result: ToolResultContent) -> tuple[str, object]:
    return result.tool, getattr(result.result, "tag", None)


def _said(messages) -> list[str]:
    return [text for text in texts_of(messages) if text.strip()]


def _has_empty(history) -> bool:
    return any(not message.content for message in history)
