from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_calls import answer, result

from simulacra.messages import MediaContent, TextContent
from simulacra.tools import tool
from simulacra.tools.shortening import MIN_BYTES, json_size, shares, shorten_result, shorten_text

pytestmark = pytest.mark.anyio

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=600)


async def test_cp_r6_a_result_that_is_too_large_keeps_head_and_tail_and_tells_its_size():
    @tool
    def f():
        return {"path": "a.txt", "content": "HEAD" + "x" * 1_000_000 + "TAIL", "lines": 3}

    told = await result(f, max_result_bytes=4096)
    assert json_size(told) <= 4096
    assert (told["result"], told["path"], told["lines"]) == (True, "a.txt", 3)
    assert told["content"].startswith("HEAD")
    assert told["content"].endswith("TAIL")
    assert "of 1000008 bytes left out" in told["content"]


async def test_cp_r6_a_small_result_stays_as_it_is():
    @tool
    def f():
        return {"content": "x" * 3000}

    assert await result(f, max_result_bytes=4096) == {"result": True, "content": "x" * 3000}


async def test_cp_r6_the_default_limit_is_256_kib():
    @tool
    def f(n: int):
        return "x" * n

    at_limit = 262_144 - len('{"result":true,"output":""}')
    assert (await result(f, {"n": at_limit}))["output"] == "x" * at_limit
    over = await result(f, {"n": at_limit + 1})
    assert f"of {at_limit + 1} bytes left out" in over["output"]
    assert 262_000 < json_size(over) <= 262_144


async def test_cp_r6_large_members_share_what_small_ones_leave():
    @tool
    def f():
        return {"small": [1, 2], "text": "t" * 9000, "list": list(range(9000))}

    told = await result(f, max_result_bytes=3000)
    assert json_size(told) <= 3000
    assert told["small"] == [1, 2]
    assert len(told["text"]) > 1000
    assert told["list"].startswith("[0,1,2,")
    assert told["list"].endswith("8998,8999]")


async def test_cp_r6_a_result_of_too_many_members_is_told_as_one_text():
    @tool
    def f():
        return {f"key {n}": n for n in range(2000)}

    told = await result(f, max_result_bytes=1000)
    assert json_size(told) <= 1000
    assert list(told) == ["result", "output"]
    assert told["output"].startswith('{"result":true,"key 0":0')
    assert told["output"].endswith('"key 1999":1999}')


async def test_cp_r6_a_failure_that_is_too_large_is_still_a_failure():
    @tool
    def f():
        return {"result": False, "message": "m" * 9000, "details": ["d"] * 9000}

    told = await result(f, max_result_bytes=1000)
    assert told["result"] is False
    assert told["message"].startswith("mmm")
    assert json_size(told) <= 1000


async def test_cp_r6_texts_beside_the_result_count_and_media_does_not():
    image = MediaContent(kind="image", media_type="image/png", data=b"x" * 9000)

    @tool
    def f():
        return {"n": 1}, [TextContent("a" * 5000, id="b1"), image, TextContent("short")]

    done = await answer(f, max_result_bytes=1000)
    long, media, short = done.content
    assert done.result.model_dump() == {"result": True, "n": 1}
    assert media == image
    assert short == TextContent("short")
    assert "of 5000 bytes left out" in long.text
    assert long.id == "b1"
    assert json_size(done.result.model_dump()) + json_size(long.text) + json_size(short.text) <= 1000


async def test_cp_r6_the_text_of_an_error_is_shortened_to_4_kib():
    @tool
    def f():
        raise ValueError("start" + "é" * 10_000 + "end")

    told = await result(f)
    assert told["message"].startswith("start")
    assert told["message"].endswith("end")
    assert json_size(told["message"]) <= 4096


@given(TEXT, st.integers(64, 600))
def test_a_shortened_text_fits_and_is_cut_between_characters(text, budget):
    short = shorten_text(text, budget)
    short.encode()
    assert json_size(short) <= budget
    assert short == text or json_size(text) > budget

    if short != text and "\n[... " in short:
        head, _, rest = short.partition("\n[... ")
        tail = rest.partition(" bytes left out ...]\n")[2]
        assert text.startswith(head)
        assert text.endswith(tail)


@given(st.text('\x00\n"\\é😀x', min_size=300, max_size=1500))
def test_what_json_escapes_is_counted_as_json_writes_it(text):
    assert len(json.dumps(shorten_text(text, 400), ensure_ascii=False, separators=(",", ":")).encode()) <= 400


@given(st.lists(st.integers(0, 5000), max_size=8), st.integers(0, 10_000))
def test_shares_never_exceed_the_budget_or_what_is_wanted(sizes, budget):
    given_out = shares(sizes, budget)
    assert sum(given_out) <= budget
    assert all(share <= size for share, size in zip(given_out, sizes, strict=True))
    assert given_out == sizes or sum(given_out) >= budget - len(sizes) or sum(sizes) <= budget


JSON = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=60), JSON, max_size=10), st.booleans(), st.integers(MIN_BYTES, 3000))
def test_a_shortened_result_fits_and_keeps_its_verdict(members, verdict, budget):
    whole = {"result": verdict, "message": "m", **{k: v for k, v in members.items() if k not in ("result", "message")}}
    short = shorten_result(whole, budget)
    assert json_size(short) <= budget
    assert short["result"] is verdict
    assert verdict or isinstance(short["message"], str)
    assert short == whole or json_size(whole) > budget
