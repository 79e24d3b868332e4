"""What the mender remembers of earlier requests changes nothing but the time it takes."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st
from simulacra_google.mending import ContentMender

MODELS = ("gemini-2.5-pro", "gemini-3-pro")

parts = st.one_of(
    st.sampled_from(
        [
            {"text": "a"},
            {"text": " "},
            {"text": "half \ud83d"},
            {"text": "hm", "thought": True},
            {"text": "", "thoughtSignature": "U0lH"},
            {"foreign": "a part of anthropic"},
            {"foreign": "image", "text": "a picture"},
            {"functionCall": {"name": "f", "args": {}}},
            {"functionCall": {"id": "1", "name": "f", "args": []}},
            {"functionCall": {"id": "2", "name": "my f", "args": {}}, "thoughtSignature": "U0lH"},
            {"functionResponse": {"name": "f", "response": {}}},
            {"functionResponse": {"id": "1", "name": "g", "response": {}}},
            {"functionResponse": {"id": "2", "name": "my f", "response": []}},
        ]
    )
)
contents = st.builds(
    lambda role, found: {"role": role, "parts": copy.deepcopy(found)},
    st.sampled_from(["user", "model"]),
    st.lists(parts, max_size=4),
)


def wire_of(found, model):
    return {"model": model, "contents": found}


@given(st.lists(contents, max_size=12), st.lists(st.integers(0, 12), max_size=4), st.sampled_from(MODELS))
def test_a_request_is_put_right_alike_whatever_was_seen_before(found, ends, model):
    seasoned = ContentMender()

    for end in [*sorted(ends), len(found), len(found)]:
        known = wire_of(found[:end], model)
        mended = seasoned(known)

        assert mended == ContentMender()(known)
        assert seasoned(mended) is mended


@given(st.lists(contents, max_size=8), st.lists(contents, max_size=4), st.sampled_from(MODELS))
def test_a_list_that_has_grown_is_looked_at_again(found, further, model):
    seasoned = ContentMender()
    seasoned(wire_of(found, model))
    found += further

    assert seasoned(wire_of(found, model)) == ContentMender()(wire_of(found, model))


@given(st.lists(contents, max_size=8))
def test_models_of_both_kinds_are_kept_apart(found):
    seasoned = ContentMender()

    for model in (*MODELS, *MODELS):
        assert seasoned(wire_of(found, model)) == ContentMender()(wire_of(found, model))


def test_what_was_given_is_never_changed():
    found = [
        {"role": "model", "parts": [{"text": "a"}, {"functionCall": {"name": "f", "args": []}}]},
        {"role": "user", "parts": [{"text": "b"}, {"functionResponse": {"name": "f", "response": 3}}]},
    ]
    before = copy.deepcopy(found)
    mender = ContentMender()

    for model in MODELS:
        mender(wire_of(found, model))["contents"].append("by a stranger")

    assert found[:2] == before
    assert mender(wire_of(found[:2], MODELS[1])) == ContentMender()(wire_of(found[:2], MODELS[1]))
