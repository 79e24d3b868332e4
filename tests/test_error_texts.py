"""What the text of a vendor's error names, and what it never repeats."""

from __future__ import annotations

import pytest

from simulacra.http_errors import error_from_status


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefghijkl",
        "sk-ant-api03-abc_def",
        "sk-abc12***********wxyz",
        "fw_3ZabcdefghijK",
        "gsk_abcdefghijk",
        "AIzaSyA1234567890abcdef",
        "ya29.a0AfH6SMBabcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    ],
)
def test_a_key_in_a_body_is_never_repeated(key):
    error = error_from_status(401, {}, {"error": {"message": f"Key {key} is not good, see the docs."}})

    assert key not in str(error)
    assert str(error).endswith("see the docs.")


def test_what_was_sent_as_a_key_is_never_repeated():
    sent = {"X-Api-Key": "plain-secret", "Authorization": "Bearer other-secret", "User-Agent": "somebody"}
    error = error_from_status(401, {}, "plain-secret or other-secret of somebody", sent=sent)

    assert str(error) == "[key] or [key] of somebody"


def test_the_address_is_named_without_what_may_be_secret():
    error = error_from_status(404, {}, "no such model", url="https://u:p@example.com:8/v1/x?key=k#f")

    assert str(error) == "no such model (https://example.com:8/v1/x). Is the model's name right, and the address?"


@pytest.mark.parametrize(
    "words", ["API key not valid.", "Invalid api_key: Field required", "ask-me later", "the skill-set"]
)
def test_words_that_are_no_keys_stay(words):
    assert str(error_from_status(401, {}, words)) == words
