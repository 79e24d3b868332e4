from __future__ import annotations

import pytest
from chat_wire import call, calls, chunk, message_of


def assembled(*chunks):
    message = message_of([*chunks, chunk(finish="tool_calls")])

    return [(one.tool_request_id, one.tool, one.params, one.error is None) for one in message.tool_calls]


def test_oa_03_every_call_labelled_with_index_0():
    assert assembled(
        calls(call("read", '{"p":1}', index=0, id="a")), calls(call("read", '{"p":2}', index=0, id="b"))
    ) == [("a", "read", {"p": 1}, True), ("b", "read", {"p": 2}, True)]


def test_oa_06_the_same_id_in_every_fragment():
    assert assembled(calls(call("f", '{"x"', index=0, id="c")), calls(call(None, ":1}", index=0, id="c"))) == [
        ("c", "f", {"x": 1}, True)
    ]


def test_oa_06_the_same_id_and_name_in_every_fragment_without_index():
    assert assembled(calls(call("f", '{"x"', id="c")), calls(call("f", ":1}", id="c"))) == [("c", "f", {"x": 1}, True)]


def test_oa_r1_indexes_may_start_anywhere_and_have_gaps():
    assert assembled(
        calls(call("a", "{", index=7, id="x"), call("b", "{", index=3, id="y")),
        calls(call(None, "}", index=3), call(None, "}", index=7)),
    ) == [("x", "a", {}, True), ("y", "b", {}, True)]


def test_oa_r1_an_index_not_seen_before_opens_a_call_also_with_a_known_id():
    assert assembled(calls(call("a", "{}", index=0, id="x")), calls(call("a", '{"n":2}', index=1, id="x"))) == [
        ("x", "a", {}, True),
        ("x", "a", {"n": 2}, True),
    ]


def test_oa_r1_a_fragment_without_index_goes_to_the_call_of_its_id():
    assert assembled(
        calls(call("a", "{", index=0, id="x"), call("b", "{", index=1, id="y")),
        calls(call(None, "}", id="x"), call(None, "}", id="y")),
    ) == [("x", "a", {}, True), ("y", "b", {}, True)]


def test_w_oai_10_a_fragment_without_index_and_id_goes_to_the_latest_call():
    assert assembled(
        calls(call("a", "{}", id="x")),
        calls(call("b", '{"n"', id="y")),
        calls(call(None, ":1}")),
    ) == [("x", "a", {}, True), ("y", "b", {"n": 1}, True)]


@pytest.mark.parametrize("empty", [{}, {"id": ""}, {"id": None, "index": None}])
def test_w_oai_10_whole_calls_without_index_and_id_stay_apart(empty):
    found = assembled(calls(call("a", '{"n":1}', **empty), call("a", '{"n":2}', **empty), call("b", "", **empty)))

    assert [(tool, params) for _, tool, params, _ in found] == [("a", {"n": 1}), ("a", {"n": 2}), ("b", {})]
    assert len({call_id for call_id, *_ in found}) == 3


def test_w_oai_10_a_name_repeated_with_each_piece_is_one_call():
    found = assembled(calls(call("a", '{"n"')), calls(call("a", ":1}")))

    assert [(tool, params) for _, tool, params, _ in found] == [("a", {"n": 1})]


def test_oa_r2_what_never_gets_a_name_is_no_call():
    assert assembled(calls(call(None, "{}", index=0, id="ghost")), calls(call("f", "{}", index=1, id="a"))) == [
        ("a", "f", {}, True)
    ]


def test_oa_r2_arguments_before_the_name_are_kept():
    assert assembled(calls(call(None, '{"n"', index=0, id="a")), calls(call("f", ":1}", index=0))) == [
        ("a", "f", {"n": 1}, True)
    ]


@pytest.mark.parametrize("empty", [{}, {"id": ""}, {"id": None}])
def test_oa_r2_a_named_call_without_id_gets_one_that_fits(empty):
    ((call_id, *_),) = assembled(calls(call("f", "{}", index=0, **empty)))

    assert call_id.startswith("call_")
    assert len(call_id) <= 40


def test_oa_r4_an_id_that_comes_late_opens_no_second_call():
    found = assembled(calls(call("f", '{"n"', index=0)), calls(call(None, ":1}", index=0, id="late")))

    assert [(tool, params) for _, tool, params, _ in found] == [("f", {"n": 1})]


def test_oa_r4_missing_values_never_become_text():
    assert assembled(calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": None}, "type": None})) == [
        ("a", "f", {}, True)
    ]


def test_arguments_that_come_as_an_object_are_read():
    assert assembled(calls(call("f", {"n": 1}, index=0, id="a"))) == [("a", "f", {"n": 1}, True)]


def test_the_form_before_tools_is_read():
    message = message_of(
        [
            chunk({"function_call": {"name": "f", "arguments": '{"n"'}}),
            chunk({"function_call": {"arguments": ":1}"}}),
            chunk(finish="function_call"),
        ]
    )

    assert [(one.tool, one.params) for one in message.tool_calls] == [("f", {"n": 1})]
    assert message.stop_reason == "tool_use"


def test_fields_of_the_service_stay_with_the_call():
    message = message_of(
        [calls(call("f", "{}", index=0, id="a", extra_content={"google": {"s": "1"}})), chunk(finish="tool_calls")]
    )

    assert message.tool_calls[0].extended == {"openai_call": {"extra_content": {"google": {"s": "1"}}}}


def test_tl_09_cut_arguments_with_a_finish_reason_of_tool_calls_are_an_error():
    ((_, _, params, is_readable),) = assembled(calls(call("f", '{"q":"abc', index=0, id="a")))

    assert params == {}
    assert not is_readable
