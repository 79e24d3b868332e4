"""Requests in Gemini's form."""

from __future__ import annotations

import base64
import json

import pytest
from gemini_wire import (
    MODEL,
    STOP,
    add,
    answers,
    call,
    chunk,
    contents_of,
    message_of,
    params_of,
    sent_back,
    text,
    thought,
    user,
)

from simulacra.errors import ConfigurationError
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
from simulacra.provider import OutputRequest, RequestOptions
from simulacra.schema import ToolDefinition, ToolParameter
from simulacra.serialization import dump_message, load_message
from simulacra.testing import EmulatedReply
from simulacra.testing.driving import reply_of, request

PNG = b"\x89PNG\r\n\x1a\n....."
DATA = base64.b64encode(PNG).decode()
PICTURE = MediaContent(kind="image", media_type="image/png", data=PNG)


def results_of(*results, tool="add"):
    return UserMessage(
        tuple(ToolResultContent(tool_request_id=name, tool=tool, result=result) for name, result in results)
    )


def test_goo_1_a_request_in_full():
    find = ToolDefinition(
        name="find",
        description="Find.",
        parameters=(
            ToolParameter(name="what", type="array", items=ToolParameter(type="string", description="A word.")),
            ToolParameter(name="how", type="object", properties=(ToolParameter(name="a", type="boolean"),)),
            ToolParameter(name="limit", type="number", description="Most.", default=5),
        ),
    )
    params = params_of(user("hi"), system=["Be kind.", " ", "Be brief."], tools=[find, add.get_definition()])

    assert params == {
        "model": MODEL,
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be kind.\n\nBe brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "find",
                        "description": "Find.",
                        "parameters": {
                            "type": "OBJECT",
                            "properties": {
                                "what": {"type": "ARRAY", "items": {"type": "STRING", "description": "A word."}},
                                "how": {"type": "OBJECT", "properties": {"a": {"type": "BOOLEAN"}}},
                                "limit": {"type": "NUMBER", "description": "Most.", "default": 5},
                            },
                        },
                    },
                    {
                        "name": "add",
                        "description": "Add two numbers.",
                        "parameters": {
                            "type": "OBJECT",
                            "properties": {"a": {"type": "INTEGER"}, "b": {"type": "INTEGER", "default": 2}},
                            "required": ["a"],
                        },
                    },
                ]
            }
        ],
    }


def test_goo_1_nothing_is_sent_that_is_not_asked_for():
    assert params_of(user("hi"), system=[" "]).keys() == {"model", "contents"}


def test_goo_1_a_function_without_arguments_has_no_parameters():
    ping = ToolDefinition(name="ping", description="Ping.")

    assert params_of(tools=[ping])["tools"] == [{"functionDeclarations": [{"name": "ping", "description": "Ping."}]}]


def test_goo_2_every_block_has_its_part():
    reply = AssistantMessage(
        (
            TextContent("a"),
            ToolContent(tool_request_id="c1", tool="add", params={"a": 1}),
            ToolContent(tool_request_id="c2", tool="add", params={"a": 2}),
            RawContent(model_kind="google", data='{"executableCode": {"code": "1", "language": "PYTHON"}}'),
        )
    )
    results = results_of(
        ("c1", ToolSuccessResult(result=True, output=3)), ("c2", ToolErrorResult(result=False, message="no"))
    )

    assert contents_of(user("q"), reply, results)[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "a"},
                {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}},
                {"functionCall": {"id": "c2", "name": "add", "args": {"a": 2}}},
                {"executableCode": {"code": "1", "language": "PYTHON"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "c1",
                        "name": "add",
                        "response": {"output": {"result": True, "output": 3}},
                    }
                },
                {
                    "functionResponse": {
                        "id": "c2",
                        "name": "add",
                        "response": {"error": {"result": False, "message": "no", "error": None}},
                    }
                },
            ],
        },
    ]


def test_goo_2_what_is_of_other_vendors_is_left_out():
    reply = AssistantMessage(
        (
            ThinkingContent("hm", extended={"signature": "SIG"}),
            TextContent("a", extended={"signature": "SIG"}),
            RawContent(model_kind="anthropic", data='{"type": "server_tool_use"}'),
            RawContent(model_kind="google", data="no JSON"),
            RawContent(model_kind="google", data='{"groundingMetadata": {}}'),
        )
    )

    assert contents_of(user("q"), reply, user("r"))[1]["parts"] == [{"text": "a"}]


PARTS = [
    thought("hm"),
    text("", thoughtSignature="U0lH"),
    text("a", thoughtSignature="T1RI"),
    text("b", partMetadata={"k": 1}),
    call(args={"a": 1}, id="c1", thoughtSignature="U0lH"),
    call(args={"a": 1.5, "b": None}),
    call(id="c3", toolMetadata={"x": [1]}),
    {"inlineData": {"mimeType": "image/png", "data": DATA}, "thoughtSignature": "U0lH"},
    {"inlineData": {"mimeType": "image/png", "data": DATA, "displayName": "d"}},
    {"executableCode": {"code": "1", "language": "PYTHON"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"thoughtSignature": "TEFTVA=="},
]


def test_w_goo_3_a_reply_goes_back_part_for_part_also_after_storage():
    message = message_of(*(chunk(part) for part in PARTS), chunk(finish=STOP))
    stored = load_message(dump_message(message))

    assert json.dumps(sent_back(message)) == json.dumps(sent_back(stored)) == json.dumps(PARTS)


def test_w_goo_3_further_fields_of_a_call_go_back():
    part = {"functionCall": {"id": "c", "name": "add", "args": {}, "willContinue": False}}

    assert sent_back(message_of(chunk(part, finish=STOP))) == [part]


@pytest.mark.parametrize(
    "model", ["gemini-2.5-pro", "gemini-2.5-pro-preview-05", "gemini-flash-latest", "tunedModels/x"]
)
def test_goo_2_signatures_go_back_to_the_model_that_gave_them(model):
    message = message_of(chunk(text("a", thoughtSignature="U0lH"), finish=STOP))

    assert sent_back(message, model=model) == [text("a", thoughtSignature="U0lH")]


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-3-pro"])
def test_goo_2_signatures_stay_behind_when_the_model_changes(model):
    message = message_of(chunk(text("a", thoughtSignature="U0lH"), text("", thoughtSignature="T1RI"), finish=STOP))

    assert sent_back(message, model=model) == [text("a")]


@pytest.mark.parametrize(
    ("asked", "then", "kept"),
    [
        ("gemini-3-pro-preview", "gemini-3-pro-preview", True),  # another model answers under this name
        ("gemini-flash-latest", "gemini-flash-latest", True),
        ("gemini-3-pro-preview", "gemini-3-pro", True),
        ("gemini-3-pro-preview", "gemini-2.5-pro", False),
        ("gemini-flash-latest", "gemini-2.5-pro", False),
    ],
)
def test_goo_2_the_model_that_was_asked_decides_whose_signature_it_is(asked, then, kept):
    signed = text("a", thoughtSignature="U0lH")
    message = message_of({**chunk(signed, finish=STOP), "modelVersion": "gemini-3.1-pro-preview"}, asked=asked)

    assert sent_back(message, model=then) == [signed if kept else text("a")]


def test_an_id_that_was_made_here_is_told_neither_with_the_call_nor_with_its_result():
    message = message_of(chunk(call(args={"a": 1}), call(args={"a": 2})), chunk(finish=STOP))
    _, called, answered = contents_of(user(), message, answers(message))

    assert called["parts"] == [call(args={"a": 1}), call(args={"a": 2})]
    assert all("id" not in part["functionResponse"] for part in answered["parts"])


def test_gm_r6_what_a_tool_returns_is_data():
    told = {"error": "none", "output": 3, "$ref": "picture", "parts": [{"inlineData": {}}]}
    reply = AssistantMessage((ToolContent(tool_request_id="c", tool="add", params={}),))
    results = results_of(("c", ToolSuccessResult(result=True, **told)))
    [part] = contents_of(user(), reply, results)[2]["parts"]

    assert part["functionResponse"]["response"].keys() == {"output"}
    assert json.loads(part["functionResponse"]["response"]["output"]) == {"result": True, **told}


def test_texts_and_pictures_of_a_result_stand_with_it():
    reply = AssistantMessage(tuple(ToolContent(tool_request_id=name, tool="add", params={}) for name in "ab"))
    done = ToolSuccessResult(result=True)
    results = UserMessage(
        (
            ToolResultContent(tool_request_id="a", tool="add", result=done, content=(TextContent("t"), PICTURE)),
            ToolResultContent(tool_request_id="b", tool="add", result=done),
        )
    )
    first, second, picture = contents_of(user(), reply, results)[2]["parts"]

    assert first["functionResponse"]["response"] == {"output": {"result": True}, "texts": ["t"]}
    assert second["functionResponse"]["id"] == "b"
    assert picture == {"inlineData": {"mimeType": "image/png", "data": DATA}}


@pytest.mark.parametrize(
    ("media", "part"),
    [
        (PICTURE, {"inlineData": {"mimeType": "image/png", "data": DATA}}),
        (
            MediaContent(kind="image", media_type="image/jpeg", data=PNG),  # named wrongly
            {"inlineData": {"mimeType": "image/png", "data": DATA}},
        ),
        (
            MediaContent(kind="audio", media_type="audio/wav", data=b"RIFF"),
            {"inlineData": {"mimeType": "audio/wav", "data": base64.b64encode(b"RIFF").decode()}},
        ),
        (
            MediaContent(kind="video", media_type="video/mp4", url="https://youtu.be/x"),
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://youtu.be/x"}},
        ),
        (
            MediaContent(
                kind="file", media_type="application/pdf", file_id="https://generativelanguage/v1beta/files/f"
            ),
            {"fileData": {"mimeType": "application/pdf", "fileUri": "https://generativelanguage/v1beta/files/f"}},
        ),
    ],
)
def test_media_are_data_or_files(media, part):
    assert contents_of(UserMessage((media, TextContent("what?"))))[0]["parts"][0] == part


def test_media_that_gemini_does_not_take_are_refused_in_the_prompt_and_named_in_history():
    archive = MediaContent(kind="file", media_type="application/zip", data=b"PK", name="a.zip")
    message = UserMessage((TextContent("look"), archive))

    with pytest.raises(ConfigurationError, match=r"prompt's file cannot be sent to google.*application/zip"):
        contents_of(message)

    placeholder = contents_of(message, AssistantMessage((TextContent("ok"),)), user())[0]["parts"][1]
    assert "a.zip" in placeholder["text"]


@pytest.mark.anyio
async def test_what_is_prepared_is_accepted_with_everything_in_it(serve):
    message = message_of(*(chunk(part) for part in PARTS), chunk(finish=STOP))
    history = [UserMessage((TextContent("q"), PICTURE)), message, answers(message, text="go on")]
    asked = request(
        *history,
        system=["s"],
        tools=[add.get_definition()],
        output=OutputRequest(schema={"type": "object", "properties": {"a": {"type": "integer"}}}),
        options=RequestOptions(max_tokens=9, tool_choice="auto", thinking={"enable": True, "budget_tokens": 128}),
    )

    async with serve([EmulatedReply(text="{}")], model="gemini-3-pro") as (emulator, provider):
        await reply_of(provider, asked)

    [sent] = emulator.requests
    assert sent.path.endswith("/models/gemini-3-pro:streamGenerateContent?alt=sse")
    assert sent.headers["x-goog-api-key"] == "k"
    assert "google-genai-sdk" in sent.headers["user-agent"]
