"""What history looks like when it goes to Anthropic, and every repair on the way."""

from __future__ import annotations

import base64
import json
import re

import pytest
from messages_wire import params_of, result, turns_of, user
from simulacra_anthropic.repairs import OPENING
from simulacra_anthropic.rules import RULES

from simulacra.errors import ConfigurationError
from simulacra.messages import (
    AssistantMessage,
    MediaContent,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
)
from simulacra.schema import ToolDefinition

SIGNED = ThinkingContent("hm", extended={"signature": "SIG"})
SIGNED_SENT = {"type": "thinking", "thinking": "hm", "signature": "SIG"}
PNG = b"\x89PNG\r\n\x1a\n"
ADD = ToolDefinition(name="add", description="Add.")


def model(*blocks):
    return AssistantMessage(tuple(TextContent(block) if isinstance(block, str) else block for block in blocks))


def used(call_id, name="add", **params):
    return ToolContent(tool_request_id=call_id, tool=name, params=params)


def used_sent(call_id, name="add", **params):
    return {"type": "tool_use", "id": call_id, "name": name, "input": params}


def result_sent(call_id, text='{"result":true}', **fields):
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, **fields}


def server(kind="server_tool_use", **fields):
    return RawContent(model_kind="anthropic", data=json.dumps({"type": kind, **fields}))


def test_ant_5_one_text_is_a_plain_string():
    assert turns_of(user("a"), model("b"), user("c")) == [("user", "a"), ("assistant", "b"), ("user", "c")]


def test_ant_5_a_call_and_its_result():
    turns = turns_of(user("q"), model("Now.", used("t1", a=1)), user(result("t1", output=3)), tools=(ADD,))

    assert turns[1:] == [
        ("assistant", [{"type": "text", "text": "Now."}, used_sent("t1", a=1)]),
        ("user", [result_sent("t1", '{"result":true,"output":3}')]),
    ]


def test_ant_5_an_error_result_says_so():
    sent = turns_of(user("q"), model(used("t1")), user(result("t1", error="no")))[2][1][0]

    assert sent["is_error"] is True
    assert json.loads(sent["content"])["message"] == "no"


def test_ant_5_citations_go_back_with_the_models_text_alone():
    place = {"type": "web_search_result_location", "url": "u", "cited_text": "c"}
    cited = TextContent("Sunny", extended={"citations": [place, {"type": "foreign"}, "x"]})
    turns = turns_of(user(cited), model(cited), user("go on"))

    assert turns[0] == ("user", "Sunny")
    assert turns[1] == ("assistant", [{"type": "text", "text": "Sunny", "citations": [place]}])


def test_ant_5_what_the_api_said_of_a_call_goes_back_with_it():
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    call = ToolContent(tool_request_id="t1", tool="add", extended={"anthropic": {"caller": caller}, "other": 1})
    sent = turns_of(user("q"), model(call), user(result("t1")))[1][1]

    assert sent == [{**used_sent("t1"), "caller": caller}]


def test_w_ant_1_redacted_thinking_goes_back_byte_for_byte():
    hidden = ThinkingContent("", redacted=True, extended={"data": "ErEB+/=\u00e9"})

    assert turns_of(user("q"), model(hidden, "x"), user("go on"))[1][1] == [
        {"type": "redacted_thinking", "data": "ErEB+/=\u00e9"},
        {"type": "text", "text": "x"},
    ]


def test_an_r4_thinking_goes_with_its_signature_or_not_at_all():
    unsigned = [ThinkingContent("hm"), ThinkingContent("hm", extended={"signature": ""})]
    unsigned += [ThinkingContent("", redacted=True), ThinkingContent("", redacted=True, extended={"data": 3})]

    assert turns_of(user("q"), model(*unsigned, "x"), user("go on"))[1] == ("assistant", "x")
    assert turns_of(user("q"), model(SIGNED, "x"), user("go on"))[1][1][0] == SIGNED_SENT


def test_an_r3_each_round_replays_its_blocks_in_their_order():
    rounds = [
        message
        for number in range(3)
        for message in (
            model(ThinkingContent("", extended={"signature": f"S{number}"}), "text", SIGNED, used(f"t{number}")),
            user(result(f"t{number}")),
        )
    ]
    turns = turns_of(user("q"), *rounds)

    for number in range(3):
        assert turns[1 + 2 * number][1] == [
            {"type": "thinking", "thinking": "", "signature": f"S{number}"},
            {"type": "text", "text": "text"},
            SIGNED_SENT,
            used_sent(f"t{number}"),
        ]


def test_w_ant_7_foreign_thoughts_and_parts_are_left_out():
    foreign = RawContent(model_kind="google", data='{"type": "text", "text": "leak"}')
    turns = turns_of(
        user("q"), model(ThinkingContent("secret", extended={"signature": "theirs"}), foreign, "x"), user("y")
    )

    assert turns[1] == ("assistant", "x")


def test_ant_5_raw_parts_of_its_own_go_back_and_unreadable_ones_do_not():
    own = {"type": "future_block", "a": [1, None]}
    broken = [RawContent(model_kind="anthropic", data=data) for data in ("{", "[]", '{"container": {"id": "c"}}')]

    assert turns_of(user("q"), model(server("future_block", a=[1, None]), *broken), user("y"))[1][1] == [own]
    assert turns_of(user("q"), model(*broken, "x"), user("y"))[1] == ("assistant", "x")


def test_an_01_an_empty_text_beside_a_call_is_left_out():
    stored = [user("what time?"), model("", used("toolu_1", "now")), user(result("toolu_1", "now"), "go on")]
    turns = turns_of(*stored)

    assert turns[1] == ("assistant", [used_sent("toolu_1", "now")])
    assert turns[2][1][1] == {"type": "text", "text": "go on"}


def test_an_r1_a_message_left_with_nothing_is_left_out_and_its_neighbours_are_one():
    for nothing in (model(), model(" \n"), model(ThinkingContent("hm")), model(SIGNED)):
        assert turns_of(user(" a "), nothing, user("b"))[0][1] == [
            {"type": "text", "text": " a "},
            {"type": "text", "text": "b"},
        ]


def test_an_r2_white_space_of_the_user_is_content():
    assert turns_of(user("  a\n\n"))[0] == ("user", "  a\n\n")


def test_an_03_a_prefill_ends_in_no_white_space():
    stored = model("title: \n")
    assert turns_of(user("name it"), stored)[1] == ("assistant", "title:")
    assert turns_of(user("name it"), model(SIGNED, "title: \n"))[1][1][1]["text"] == "title:"
    assert turns_of(user("a"), stored, user("b"))[1] == ("assistant", "title: \n")
    assert stored.content[0].text == "title: \n"


def test_an_05_what_was_said_behind_a_call_comes_after_its_result():
    turns = turns_of(
        user("q"), model("a", used("t1"), "retrying"), user(result("t1", text="x")), model("more"), user("z")
    )

    assert turns == [
        ("user", "q"),
        ("assistant", [{"type": "text", "text": "a"}, used_sent("t1")]),
        ("user", [result_sent("t1", '{"result":true,"text":"x"}')]),
        ("assistant", [{"type": "text", "text": "retrying"}, {"type": "text", "text": "more"}]),
        ("user", "z"),
    ]


def test_an_05_each_call_is_followed_by_its_own_result():
    turns = turns_of(user("q"), model(used("t1"), "b", used("t2"), SIGNED), user(result("t2"), result("t1"), "go on"))

    assert turns[1:] == [
        ("assistant", [used_sent("t1")]),
        ("user", [result_sent("t1")]),
        ("assistant", [{"type": "text", "text": "b"}, used_sent("t2")]),
        ("user", [result_sent("t2"), {"type": "text", "text": "go on"}]),
    ]


def test_an_r6_results_come_first_and_in_the_order_of_the_calls():
    turns = turns_of(user("q"), model(used("t1"), used("t2")), user("queued", result("t2"), result("t1")))

    assert [one.get("tool_use_id") for one in turns[2][1]] == ["t1", "t2", None]
    assert len(turns) == 3


def test_an_12_ids_that_break_the_pattern_are_rewritten_and_stay_different():
    ids = ["functions.read:0", "functions:read.0", "toolu_1", ""]
    stored = [user("q"), model(*(used(one) for one in ids)), user(*(result(one, text=one) for one in ids))]
    turns = turns_of(*stored)
    sent = [one["id"] for one in turns[1][1]]

    assert len(set(sent)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", one) for one in sent)
    assert sent[2] == "toolu_1"
    assert [one["tool_use_id"] for one in turns[2][1]] == sent
    assert [json.loads(one["content"])["text"] for one in turns[2][1]] == ids
    assert turns_of(*stored) == turns


def test_tl_r4_equal_ids_are_told_apart_and_answered_in_order():
    turns = turns_of(
        user("q"),
        model(used("t1", a=1), used("t1", a=2)),
        user(result("t1", text="one"), result("t1", text="two")),
        model(used("t1", a=3)),
        user(result("t1", text="three")),
    )
    calls = [(one["id"], one["input"]["a"]) for turn in (1, 3) for one in turns[turn][1]]
    answers = [(one["tool_use_id"], json.loads(one["content"])["text"]) for turn in (2, 4) for one in turns[turn][1]]

    assert len({one for one, _ in calls}) == 3
    assert [one for one, _ in calls] == [one for one, _ in answers]
    assert [text for _, text in answers] == ["one", "two", "three"]


def test_a_call_or_a_result_that_stands_alone_is_left_out():
    stored = [user("q"), model("a", used("t1")), user("b"), model(used("t2")), user(result("t1"), result("t9"), "c")]

    assert turns_of(*stored) == [
        ("user", "q"),
        ("assistant", "a"),
        ("user", [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]),
    ]


def test_history_that_begins_with_the_model_is_led_by_the_user():
    assert turns_of(model("hello"), user("x")) == [("user", OPENING), ("assistant", "hello"), ("user", "x")]


def test_a_server_call_without_result_goes_back_only_while_it_can_still_be_answered():
    call = server(id="s1", name="web_search", input={"q": "x"})
    found = server("web_search_tool_result", tool_use_id="s1", content=[])

    def kinds(*messages):
        return [[one["type"] for one in content] for _, content in turns_of(*messages) if not isinstance(content, str)]

    assert kinds(user("q"), model("a", call)) == [["text", "server_tool_use"]]
    assert kinds(user("q"), model("a", call), user("b")) == []
    assert kinds(user("q"), model(call, found, "a"), user("b"))[0][:2] == ["server_tool_use", "web_search_tool_result"]
    assert kinds(user("q"), model("a", found), user("b")) == []
    assert kinds(user("q"), model(call, used("t1")), user(result("t1")))[0] == ["server_tool_use", "tool_use"]
    assert kinds(user("q"), model(call, used("t1")), user(result("t1")), model(found, "a"), user("b"))[2] == [
        "web_search_tool_result",
        "text",
    ]
    assert kinds(user("q"), model("a", server(id="s1", name="x", input="cut"), found), user("b")) == []


def test_results_that_the_services_code_asked_for_find_its_container():
    kept = RawContent(model_kind="anthropic", data='{"container": {"id": "container_1"}}')
    loop = [user("q"), model(server(id="s1", name="code_execution", input={}), used("t1"), kept)]

    assert params_of(*loop, user(result("t1")))["container"] == "container_1"
    assert "container" not in params_of(*loop, user(result("t1")), model("done"), user("next"))
    assert "container" not in params_of(user("q"), model("a", kept), user("next"))


def test_mu_r1_images_pdfs_texts_and_files_are_sent_by_their_kind():
    media = [
        MediaContent(kind="image", media_type="IMAGE/JPG; x=1", data=b"\xff\xd8\xff"),
        MediaContent(kind="image", media_type="image/png", url="https://x/y.png"),
        MediaContent(kind="file", media_type="application/pdf", data=b"%PDF", name="a.pdf"),
        MediaContent(kind="file", media_type="text/markdown", data="# hé".encode()),
        MediaContent(kind="file", media_type="application/pdf", file_id="file_1"),
        MediaContent(kind="image", media_type="image/x-unknown", file_id="file_2"),
    ]

    assert turns_of(user(*media))[0][1] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# hé"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_2"}},
    ]


@pytest.mark.parametrize(
    "media",
    [
        MediaContent(kind="audio", media_type="audio/wav", data=b"RIFF"),
        MediaContent(kind="video", media_type="video/mp4", url="https://x"),
        MediaContent(kind="image", media_type="image/tiff", data=b"II*"),
        MediaContent(kind="file", media_type="application/zip", data=b"PK"),
        MediaContent(kind="file", media_type="text/plain", url="https://x"),
        MediaContent(kind="file", media_type="text/plain", data=b"\xff\xfe"),
        MediaContent(kind="file", media_type="text/plain", data=b" "),
    ],
)
def test_mu_r1_what_the_api_does_not_take_is_refused_in_a_prompt_and_named_in_history(media):
    with pytest.raises(ConfigurationError, match=f"the prompt's {media.kind} cannot be sent"):
        turns_of(user("look", media))

    shown = turns_of(user("look", media), model("x"), user("next"))[0][1][1]
    assert shown["type"] == "text"
    assert media.media_type in shown["text"]


@pytest.mark.parametrize(
    ("start", "media_type"),
    [
        (b"\xff\xd8\xff", "image/jpeg"),
        (PNG, "image/png"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
    ],
)
def test_mu_01_an_image_is_sent_as_what_its_bytes_are(start, media_type):
    wrong = MediaContent(kind="image", media_type="image/png", data=start)
    source = turns_of(user(wrong))[0][1][0]["source"]

    assert source == {"type": "base64", "media_type": media_type, "data": base64.b64encode(start).decode()}


def test_mu_r2_media_of_a_result_stay_in_it():
    image = MediaContent(kind="image", media_type="image/png", data=PNG)
    sound = MediaContent(kind="audio", media_type="audio/wav", data=b"x")
    answer = result("t1", content=(image, TextContent("a cat"), TextContent(" "), sound))
    sent = turns_of(user("q"), model(used("t1")), user(answer))[2][1][0]["content"]

    assert [part["type"] for part in sent] == ["text", "image", "text", "text"]
    assert sent[2]["text"] == "a cat"
    assert "audio/wav" in sent[3]["text"]


def test_media_of_the_model_are_left_out():
    image = MediaContent(kind="image", media_type="image/png", data=PNG)

    assert turns_of(user("draw"), model("here", image), user("more"))[1] == ("assistant", "here")


def test_changing_a_request_changes_nothing_stored():
    stored = model(used("t1", a=[1]), TextContent("x", extended={"citations": [{"type": "page_location", "n": [1]}]}))
    params = params_of(user("q"), stored, user(result("t1")))
    params["messages"][1]["content"][0]["input"]["a"].append(2)
    params["messages"][3]["content"][0]["citations"][0]["n"].append(2)

    assert stored.content[0].params == {"a": [1]}
    assert stored.content[1].extended["citations"][0]["n"] == [1]


def test_a_list_that_has_grown_is_looked_at_again():
    turns = [{"role": "user", "content": "hi"}]
    wire = {"model": "m", "max_tokens": 9, "messages": turns}
    assert RULES.repair(wire) is wire

    turns.append({"role": "user", "content": " "})
    assert RULES.check(wire)
    assert RULES.check(RULES.repair(wire)) == ()
