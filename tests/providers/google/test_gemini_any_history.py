"""Whatever history holds, the request keeps the API's rules, and what is Gemini's own goes back as it came."""

from __future__ import annotations

import base64
import json
import re
from itertools import groupby, pairwise

import pytest
from gemini_wire import params_of, user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolErrorResult,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)

MOST_BLOCKS = 60
SIGNED = "c2lnbmVk"
OWN_RAWS = [
    {"executableCode": {"code": "1 + 1", "language": "PYTHON"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}, "thoughtSignature": SIGNED},
    {"futureKind": {"a": [1, None, "ü"]}, "thoughtSignature": SIGNED},
]
FOREIGN_RAWS = [{"type": "server_tool_use", "id": "s1"}, {"executableCode": {"code": "not ours"}}]
ids = st.sampled_from(["t1", "t2", "gem_1", "gem_2", "call.1|fc_2", "x" * 70])
texts = st.builds(
    TextContent,
    text=st.sampled_from(["a", " b ", "c\n", "", " ", "half \ud83d", "🙂"]),
    extended=st.sampled_from([None, None, {"thought_signature": SIGNED}, {"signature": "foreign"}]),
)
media = st.sampled_from(
    [
        MediaContent(kind="image", media_type="image/png", data=b"\x89PNG\r\n"),
        MediaContent(kind="image", media_type="image/tiff", data=b"II*"),
        MediaContent(kind="video", media_type="video/mp4", url="https://example.org/v.mp4"),
        MediaContent(kind="file", media_type="application/zip", data=b"PK"),
    ]
)
thoughts = st.builds(
    ThinkingContent,
    thought=st.sampled_from(["own", ""]),
    extended=st.sampled_from([{"google": {"thought": True}}, {"thought_signature": SIGNED}]),
) | st.builds(ThinkingContent, thought=st.just("foreign"), extended=st.sampled_from([None, {"signature": "foreign"}]))
calls = st.builds(
    lambda call_id, tool, extended: ToolContent(tool_request_id=call_id, tool=tool, params={"a": 1}, extended=extended),
    ids,
    st.sampled_from(["add", "my tool", "n" * 150, "", "1st"]),
    st.sampled_from([None, {"thought_signature": SIGNED}]),
)
results = st.builds(
    lambda call_id, result, content: ToolResultContent(
        tool_request_id=call_id, tool="add", result=result, content=content
    ),
    ids,
    st.sampled_from(
        [ToolSuccessResult(result=True, output={"$ref": "x"}), ToolErrorResult(result=False, message="no")]
    ),
    st.lists(texts | media, max_size=2).map(tuple),
)
raws = st.sampled_from(OWN_RAWS).map(lambda raw: RawContent(model_kind="google", data=json.dumps(raw)))
raws |= st.sampled_from(FOREIGN_RAWS).map(lambda raw: RawContent(model_kind="anthropic", data=json.dumps(raw)))
raws |= st.sampled_from(["[]", "no JSON", "{}"]).map(lambda data: RawContent(model_kind="google", data=data))
blocks = st.tuples(st.just("user"), texts | media | results) | st.tuples(
    st.just("assistant"), texts | media | thoughts | calls | raws
)


@st.composite
def histories(draw):
    """Messages of 60 blocks at most, some of them cut off, the prompt last."""
    drawn = draw(st.lists(blocks, max_size=MOST_BLOCKS - 1))
    messages = []

    for (role, _), group in groupby(drawn, key=lambda pair: (pair[0], isinstance(pair[1], ToolContent))):
        content = tuple(block for _, block in group)
        status = draw(st.sampled_from(["complete", "interrupted"]))
        messages.append(UserMessage(content) if role == "user" else AssistantMessage(content, status=status))

    return [*messages, UserMessage((TextContent("and now?"),))]


def parts_of(params, role):
    return [part for content in params["contents"] if content["role"] == role for part in content["parts"]]


def faults_of(params, *, signs):
    """What breaks a rule of the API, found without any of the provider's own code."""
    contents, faults = params["contents"], []
    roles = [content["role"] for content in contents]

    if roles[0] != "user" or any(left == right for left, right in pairwise(roles)):
        faults.append(f"roles are {roles}")

    for place, content in enumerate(contents):
        parts = content["parts"]
        asked = [part["functionCall"] for part in parts if "functionCall" in part]
        following = contents[place + 1]["parts"] if place + 1 < len(contents) else []
        told = [part["functionResponse"] for part in following if "functionResponse" in part]
        is_response = ["functionResponse" in part for part in parts]
        faults += [f"blank text in {place}" for part in parts if is_blank(part)]
        faults += [
            f"strange name {one['name']}" for one in asked if not re.fullmatch(r"[a-zA-Z_][\w.:-]{,127}", one["name"])
        ]

        if not parts or all(part.get("thought") for part in parts):
            faults.append(f"content {place} says nothing")

        if content["role"] == "model" and len(asked) != len(told):
            faults.append(f"{len(asked)} calls in {place} have {len(told)} responses")

        if any(
            (call.get("id"), call["name"]) != (one.get("id"), one["name"])
            for call, one in zip(asked, told, strict=False)
        ):
            faults.append(f"responses do not answer the calls of {place}")

        if is_response != sorted(is_response, reverse=True) or (any(is_response) and content["role"] == "model"):
            faults.append(f"responses stand at the wrong place in {place}")

        if signs and asked and not next(part for part in parts if "functionCall" in part).get("thoughtSignature"):
            faults.append(f"the first call of {place} carries no signature")

    return faults


def is_blank(part):
    return "text" in part and not part["text"].strip() and not part.get("thoughtSignature")


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-3-pro"])
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(history=histories())
def test_gm_r4_any_history_is_sent_as_the_api_takes_it(model, history):
    params = params_of(*history, model=model)
    written = json.dumps(params)

    assert faults_of(params, signs=model == "gemini-3-pro") == []
    assert json.loads(written) == params
    assert "not ours" not in written
    assert params_of(*history, model=model) == params


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(history=histories())
def test_w_goo_3_what_is_geminis_own_goes_back_as_it_came(history):
    sent = parts_of(params_of(*history), "model")
    own = [
        json.loads(block.data)
        for message in history
        for block in message.content
        if isinstance(block, RawContent) and block.model_kind == "google" and block.data.startswith('{"')
    ]

    assert [
        part for part in sent if part.keys() & {key for raw in OWN_RAWS for key in raw} - {"thoughtSignature"}
    ] == own
    assert all(part["thoughtSignature"] == SIGNED for part in sent if "thoughtSignature" in part)
    assert not any(part.get("text") == "foreign" for part in sent)
    assert all(base64.b64decode(part["inlineData"]["data"]) for part in sent if "inlineData" in part)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(history=histories())
def test_an_r2_no_text_of_the_user_is_lost_or_changed(history):
    sent = [part.get("text") for part in parts_of(params_of(*history), "user")]
    said = [
        block.text.replace("\ud83d", "\ufffd")
        for message in history
        if message.role == "user"
        for block in message.content
        if isinstance(block, TextContent) and block.text.strip()
    ]

    assert [text for text in sent if text in said] == said


def test_gm_r4_calls_without_ids_of_the_vendor_are_paired_by_those_made_here_where_order_does_not_do():
    asked = AssistantMessage((call_of("gem_1", "Ulm"), call_of("gem_2", "Bonn")))
    in_order = params_of(user(), asked, UserMessage((answer_to("gem_1"), answer_to("gem_2"))), user("next"))
    mixed = params_of(user(), asked, UserMessage((answer_to("gem_2"), answer_to("gem_1"))), user("next"))
    partly = params_of(user(), asked, UserMessage((answer_to("gem_2"),)), user("next"))

    assert named_in(in_order) == [("Ulm", None), ("Bonn", None), (None, "gem_1"), (None, "gem_2")]
    assert named_in(mixed) == named_in(in_order)
    assert named_in(partly) == [("Bonn", None), (None, "gem_2")]
    assert "gem_" not in json.dumps([part["functionCall"] for part in parts_of(in_order, "model")])


def call_of(call_id, city):
    return ToolContent(tool_request_id=call_id, tool="weather", params={"city": city})


def answer_to(call_id):
    result = ToolSuccessResult(result=True, answers=call_id)

    return ToolResultContent(tool_request_id=call_id, tool="weather", result=result)


def named_in(params):
    """The city of each call and whose answer each response is, in the order of the wire."""
    exchange = [part for content in params["contents"][1:3] for part in content["parts"] if "text" not in part]

    return [
        (
            part.get("functionCall", {}).get("args", {}).get("city"),
            part.get("functionResponse", {}).get("response", {}).get("output", {}).get("answers"),
        )
        for part in exchange
    ]
