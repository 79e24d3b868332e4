"""Whatever history holds, the request keeps the API's rules, and nothing the user wrote is lost."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from messages_wire import params_of, result
from simulacra_anthropic import PromptCaching
from simulacra_anthropic.drafting import Settings
from simulacra_anthropic.repairs import OPENING

from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    UserMessage,
)

SENT = Settings(model="m", caching=PromptCaching())
ids = st.sampled_from(["t1", "t2", "a:b", "a.b", ""])
texts = st.sampled_from(["a", " b ", "c\n", "", " ", "\n\t"]).map(TextContent)
images = st.just(MediaContent(kind="image", media_type="image/png", data=b"\x89PNG"))
thoughts = st.builds(
    lambda redacted, extended: ThinkingContent("thought", redacted=redacted, extended=extended),
    st.booleans(),
    st.sampled_from([None, {"signature": "SIG"}, {"data": "D"}, {"signature": ""}]),
)
calls = st.builds(lambda call_id: ToolContent(tool_request_id=call_id, tool="add", params={"a": 1}), ids)
results = st.builds(lambda call_id, error: result(call_id, error=error), ids, st.sampled_from([None, "no"]))
raws = st.builds(
    lambda kind, data: RawContent(model_kind=kind, data=json.dumps(data)),
    st.sampled_from(["anthropic", "anthropic", "google"]),
    st.sampled_from(
        [
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": "cut"},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
            {"type": "compaction", "content": "summary"},
            {"container": {"id": "c"}},
            {"type": "server_tool_use"},
            {"type": "text"},
            {"type": "tool_use"},
            {"type": 3},
            [],
        ]
    ),
)
user_messages = st.lists(texts | results | images, max_size=4).map(lambda blocks: UserMessage(tuple(blocks)))
replies = st.lists(texts | thoughts | calls | raws, max_size=5).map(lambda blocks: AssistantMessage(tuple(blocks)))
histories = st.lists(user_messages | replies, min_size=1, max_size=20)


def blocks_in(turn):
    return [{"type": "text", "text": turn["content"]}] if isinstance(turn["content"], str) else turn["content"]


def faults_of(params):
    """What breaks a rule of the API, found without any of the provider's own code."""
    faults, known_ids, marks = [], [], 0
    turns = params["messages"]
    roles = [turn["role"] for turn in turns]

    if roles[:1] == ["assistant"] or any(left == right for left, right in pairwise(roles)):
        faults.append(f"roles are {roles}")

    for place, turn in enumerate(turns):
        blocks = blocks_in(turn)
        kinds = [one["type"] for one in blocks]
        asked = [one["id"] for one in blocks if one["type"] == "tool_use"]
        following = blocks_in(turns[place + 1]) if place + 1 < len(turns) else []
        answered = [one["tool_use_id"] for one in following if one["type"] == "tool_result"]
        marks += sum("cache_control" in one for one in blocks)
        known_ids += asked
        faults += [f"blank text in {place}" for one in blocks if one["type"] == "text" and not one["text"].strip()]
        faults += [f"bad id {one!r}" for one in asked if not re.fullmatch(r"[a-zA-Z0-9_-]+", one)]

        if not blocks:
            faults.append(f"turn {place} is empty")

        if turn["role"] == "assistant" and asked != answered:
            faults.append(f"calls {asked} are answered by {answered}")

        if [kind == "tool_result" for kind in kinds] != sorted([kind == "tool_result" for kind in kinds], reverse=True):
            faults.append(f"results come late in {place}")

        if asked and kinds[-len(asked) :] != ["tool_use"] * len(asked):
            faults.append(f"something stands behind a call in {place}: {kinds}")

    if len(set(known_ids)) < len(known_ids):
        faults.append(f"ids come twice: {known_ids}")

    return faults + ([f"{marks} marks"] if marks > 2 else []) + server_faults(turns)


def server_faults(turns):
    calls, results = [], []

    for turn in turns:
        for one in blocks_in(turn):
            if one["type"] == "server_tool_use":
                calls.append(one["id"])

                if not isinstance(one["input"], dict):
                    return ["an input is no object"]

            if one["type"] == "web_search_tool_result":
                results.append(one["tool_use_id"])

    lone = set(results) - set(calls)
    last_user = blocks_in(turns[-1]) if turns and turns[-1]["role"] == "user" else []
    is_open = all(one["type"] == "tool_result" for one in last_user)

    return [f"results without calls: {lone}"] * bool(lone) + (
        [f"calls without results: {calls}"] if set(calls) - set(results) and not is_open else []
    )


def words(messages):
    return [one.text for message in messages if message.role == "user" for one in message.content if one.type == "text"]


@given(histories)
def test_an_r1_any_history_is_sent_as_the_api_takes_it(history):
    params = params_of(*history, settings=SENT)

    assert faults_of(params) == []
    assert json.loads(json.dumps(params)) == params


@given(histories)
def test_an_r2_no_text_of_the_user_is_lost_or_changed(history):
    sent = [
        one["text"]
        for turn in params_of(*history)["messages"]
        if turn["role"] == "user"
        for one in blocks_in(turn)
        if one["type"] == "text" and one["text"] != OPENING
    ]

    assert sent == [text for text in words(history) if text.strip()]


@given(histories)
def test_an_r3_thinking_that_is_sent_is_what_was_stored(history):
    sent = [one for turn in params_of(*history)["messages"] for one in blocks_in(turn) if "thinking" in one["type"]]
    allowed = [
        {"type": "thinking", "thinking": "thought", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "D"},
    ]

    assert all(one in allowed for one in sent)


@given(histories)
def test_what_is_sent_is_always_the_same(history):
    assert params_of(*history, settings=SENT) == params_of(*history, settings=SENT)
