"""For each rule about chat completions: a request that breaks it, and for those that only the user can keep, a good one."""

from __future__ import annotations

PNG = "data:image/png;base64,iVBORw=="
HELLO = {"role": "user", "content": "hello"}


def asking(*messages, **fields):
    return {"model": "gpt-test", "messages": [*messages] or [HELLO], **fields}


def called(*calls, **fields):
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


def call(call_id="a", name="f", arguments="{}", **fields):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def answer(call_id="a", content="1"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tool(name="f", **fields):
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {}}, **fields},
    }


def taking(**properties):
    return {"type": "object", "properties": properties}


def showing(*parts):
    return asking({"role": "user", "content": list(parts)})


def output(**fields):
    return {"type": "json_schema", "json_schema": {"name": "o", "schema": taking(), **fields}}


MESSAGES = {
    "roles-alternate": asking(HELLO, HELLO),
    "content-given": asking(HELLO, {"role": "user", "content": None}),
    "assistant-says-something": asking(HELLO, {"role": "assistant", "content": None}, HELLO),
    "content-not-empty": asking(HELLO, {"role": "user", "content": []}),
    "content-not-null": asking(HELLO, called(call()), answer()),
    "content-not-blank": asking(HELLO, {"role": "user", "content": " \n"}),
    "text-is-unicode": asking({"role": "user", "content": "a\ud83d"}),
    "participant-names-fit": asking({**HELLO, "name": "Jo <admin>"}),
    "message-fields-known": asking(HELLO, {"role": "assistant", "content": "x", "reasoning_content": "hm"}, HELLO),
    "parts-are-objects": showing("hello", {"type": "text", "text": "you"}),
    "text-parts-not-blank": showing({"type": "text", "text": ""}, {"type": "text", "text": "x"}),
    "tool-messages-hold-text": asking(
        HELLO, called(call()), answer(content=[{"type": "image_url", "image_url": {"url": PNG}}])
    ),
    "part-types-known": showing({"type": "foreign", "block": "thinking"}, {"type": "text", "text": "x"}),
    "images-fit": showing({"type": "image_url", "image_url": {"url": "data:text/html;base64,aaaa"}}),
    "audio-fits": showing({"type": "input_audio", "input_audio": {"data": "aaaa", "format": "flac"}}),
    "files-fit": showing({"type": "file", "file": {"filename": "a.pdf", "file_data": "https://example.com/a.pdf"}}),
    "tool-messages-follow-their-calls": asking(HELLO, answer(), {"role": "assistant", "content": "x"}),
    "calls-are-answered": asking(HELLO, called(call(), call("b")), answer()),
    "calls-are-answered-once": asking(HELLO, called(call()), answer(), answer()),
    "answers-in-the-order-of-calls": asking(HELLO, called(call(), call("b")), answer("b"), answer()),
    "call-ids-fit": asking(HELLO, called(call("x" * 41)), answer("x" * 41)),
    "call-ids-differ": asking(HELLO, called(call(), call()), answer(), answer()),
    "calls-not-empty": asking(HELLO, {"role": "assistant", "content": "x", "tool_calls": []}, HELLO),
    "calls-have-a-type": asking(HELLO, called({"id": "a", "function": {"name": "f", "arguments": "{}"}}), answer()),
    "call-names-fit": asking(HELLO, called(call(name="files.read")), answer()),
    "arguments-are-an-object": asking(HELLO, called(call(arguments='{"q": "ab')), answer()),
    "call-fields-known": asking(HELLO, called(call(index=0)), answer()),
}
FIELDS = {
    "tools-not-empty": asking(tools=[]),
    "tool-choice-needs-tools": asking(tool_choice="auto"),
    "parallel-calls-need-tools": asking(parallel_tool_calls=True),
    "one-limit": asking(max_tokens=5, max_completion_tokens=5),
    "reasoning-models-know-the-newer-limit": {**asking(max_tokens=5), "model": "o3-mini"},
    "stream-options-need-a-stream": asking(stream_options={"include_usage": True}),
    "output-name-fits": asking(response_format=output(name="my output")),
}
FOR_THE_USER = {
    "messages-present": ({"model": "gpt-test", "messages": []}, asking()),
    "roles-known": (asking({"role": "model", "content": "x"}), asking()),
    "tools-have-a-type": (asking(tools=[{"name": "f", "parameters": {}}]), asking(tools=[tool()])),
    "tool-names-fit": (asking(tools=[tool("files.read")]), asking(tools=[tool("files_read")])),
    "tool-names-differ": (asking(tools=[tool(), tool()]), asking(tools=[tool(), tool("g")])),
    "parameters-are-an-object": (asking(tools=[tool(parameters={"type": "string"})]), asking(tools=[tool()])),
    "tools-few-enough": (asking(tools=[tool(f"f{n}") for n in range(129)]), asking(tools=[tool()])),
    "array-schemas-have-items": (
        asking(tools=[tool(parameters=taking(a={"type": "array"}))]),
        asking(tools=[tool(parameters=taking(a={"type": "array", "items": {"type": "string"}}))]),
    ),
    "strict-schemas-are-strict": (
        asking(tools=[tool(parameters=taking(a={"type": "string"}), strict=True)]),
        asking(
            tools=[
                tool(
                    parameters={**taking(a={"type": "string"}), "required": ["a"], "additionalProperties": False},
                    strict=True,
                )
            ]
        ),
    ),
    "tool-choice-fits": (
        asking(tools=[tool()], tool_choice={"type": "function", "function": {"name": "g"}}),
        asking(tools=[tool()], tool_choice={"type": "function", "function": {"name": "f"}}),
    ),
    "model-named": ({"messages": [HELLO]}, asking()),
    "limits-are-positive": (asking(max_completion_tokens=0), asking(max_completion_tokens=1)),
    "output-format-known": (asking(response_format={"type": "xml"}), asking(response_format={"type": "text"})),
    "numbers-in-range": (asking(temperature=2.1), asking(temperature=2)),
    "stop-sequences-few": (asking(stop=list("abcde")), asking(stop=list("abcd"))),
    "metadata-fits": (asking(metadata={"k": 3}), asking(metadata={"k": "3"})),
    "top-logprobs-need-logprobs": (asking(top_logprobs=2), asking(top_logprobs=2, logprobs=True)),
    "strict-outputs-are-strict": (
        asking(response_format=output(strict=True)),
        asking(response_format=output(strict=True, schema={**taking(), "additionalProperties": False})),
    ),
    "json-mode-says-json": (
        asking(response_format={"type": "json_object"}),
        asking({"role": "user", "content": "answer in JSON"}, response_format={"type": "json_object"}),
    ),
    "audio-output-described": (
        asking(modalities=["text", "audio"]),
        asking(modalities=["text", "audio"], audio={"voice": "alloy", "format": "wav"}),
    ),
    "predictions-stand-alone": (
        asking(prediction={"type": "content", "content": "x"}, tools=[tool()]),
        asking(prediction={"type": "content", "content": "x"}),
    ),
}
REPAIRABLE = {**MESSAGES, **FIELDS}
BROKEN = {**REPAIRABLE, **{name: broken for name, (broken, _) in FOR_THE_USER.items()}}
