from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulacra.errors import (
    AuthenticationError,
    BadRequestError,
    ContextWindowError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    TimeoutExceededError,
)
from simulacra.http_errors import error_from_status, retry_after

NOW = "Tue, 14 Nov 2023 22:13:20 GMT"  # where the fake clock stands


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, BadRequestError, False),
        (401, AuthenticationError, False),
        (402, BadRequestError, False),
        (403, PermissionDeniedError, False),
        (404, NotFoundError, False),
        (405, BadRequestError, False),
        (408, TimeoutExceededError, True),
        (409, BadRequestError, True),
        (413, BadRequestError, False),
        (418, BadRequestError, False),
        (422, BadRequestError, False),
        (429, RateLimitError, True),
        (500, ServerError, True),
        (501, ServerError, True),
        (502, ServerError, True),
        (503, OverloadedError, True),
        (504, ServerError, True),
        (520, ServerError, True),
        (529, OverloadedError, True),
        (302, BadRequestError, False),
    ],
)
def test_rt_r4_the_status_decides_what_it_is_and_whether_to_try_again(status, kind, retryable):
    error = error_from_status(status, {}, "")

    assert type(error) is kind
    assert error.retryable is retryable
    assert error.status == status
    assert str(status) in str(error)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("overloaded_error", OverloadedError),
        ("rate_limit_error", RateLimitError),
        ("rate_limit_exceeded", RateLimitError),
        ("authentication_error", AuthenticationError),
        ("permission_error", PermissionDeniedError),
        ("not_found_error", NotFoundError),
        ("invalid_request_error", BadRequestError),
        ("context_length_exceeded", ContextWindowError),
        ("insufficient_quota", QuotaExceededError),
        ("api_error", ServerError),
        ("timeout_error", TimeoutExceededError),
        ("Overloaded_Error", OverloadedError),
        ("unheard_of", ServerError),
    ],
)
@pytest.mark.parametrize("status", [None, 200])
@pytest.mark.parametrize("key", ["type", "code"])
def test_rt_r3_an_error_event_inside_a_stream_goes_by_its_type_or_code(status, key, code, kind):
    error = error_from_status(status, {}, {"error": {key: code, "message": "some words"}})

    assert type(error) is kind
    assert error.code == code
    assert error.status is None


@pytest.mark.parametrize("code", [503, "503"])
def test_rt_09_an_error_event_may_carry_a_status_as_its_code(code):
    error = error_from_status(200, {}, {"error": {"message": "overloaded", "code": code}})

    assert type(error) is OverloadedError
    assert error.retryable
    assert error.status == 503


def test_rt_01_an_overload_under_status_200_is_an_overload():
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    assert type(error_from_status(200, {}, body)) is OverloadedError


@pytest.mark.parametrize(
    "code", ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"]
)
def test_rt_05_used_up_credit_is_no_rate_limit(code):
    error = error_from_status(
        429, {"x-should-retry": "true"}, {"error": {"code": code, "message": "rate limit, try later"}}
    )

    assert type(error) is QuotaExceededError
    assert error.retryable is False


@pytest.mark.parametrize(
    "words",
    ["You exceeded your current quota, check billing", "insufficient_quota", "prompt is too long: context length"],
)
def test_rt_r3_texts_never_make_an_error_final(words):
    assert type(error_from_status(429, {}, {"error": {"message": words}})) is RateLimitError
    assert type(error_from_status(503, {}, {"error": {"message": words}})) is OverloadedError
    assert type(error_from_status(200, {}, {"error": {"message": words}})) is ServerError
    assert type(error_from_status(500, {}, words)) is ServerError


@pytest.mark.parametrize(
    "body",
    [
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
        },
        {
            "error": {
                "code": "context_length_exceeded",
                "type": "invalid_request_error",
                "message": "no words that help",
            }
        },
        {"error": {"message": "Requested token count exceeds model's maximum context length (262144)"}},
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens",
            "type": "BadRequestError",
            "code": 400,
        },
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
            }
        },
        {
            "error": {
                "code": 400,
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
        [{"error": {"message": "Input is too long for requested model."}}],
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        b'{"error": "prompt is too long"}',
    ],
)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_cp_08_an_overflow_is_recognised_in_every_wording(status, body):
    error = error_from_status(status, {}, body)

    assert type(error) is ContextWindowError
    assert error.retryable is False


def test_cp_08_an_overflow_inside_a_stream_too():
    body = {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000"}}

    assert type(error_from_status(200, {}, body)) is ContextWindowError


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AuthenticationError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (429, RateLimitError),
        (529, OverloadedError),
    ],
)
def test_cp_r5_the_status_decides_before_the_words(status, kind):
    body = {"error": {"message": "too many tokens: context length exceeded", "code": "context_length_exceeded"}}

    assert type(error_from_status(status, {}, body)) is kind


def test_cp_r5_other_refusals_are_no_overflow():
    error = error_from_status(400, {}, {"error": {"message": "messages: at least one message is required"}})

    assert type(error) is BadRequestError


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "171"}, 171),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": " 7 "}, 7),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "7"}, 0.007),
        ({"retry-after-ms": "1234567", "retry-after": "9"}, 1234.567),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after-ms": "-1", "retry-after": "9"}, 9),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:05 GMT"}, 45),
        ({"retry-after": "Tuesday, 14-Nov-23 22:14:05 GMT"}, 45),
        ({"retry-after": "Tue Nov 14 22:14:05 2023"}, 45),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:05 -0000"}, 45),
        ({"retry-after": "Tue, 14 Nov 2023 23:14:05 +0100"}, 45),
        ({"retry-after": NOW}, 0),
        ({"retry-after": "Mon, 13 Nov 2023 00:00:00 GMT"}, 0),
    ],
)
def test_rt_r2_hints_are_read_in_every_form(fake_clock, headers, seconds):
    assert retry_after(headers) == seconds
    assert error_from_status(429, {key.title(): value for key, value in headers.items()}, "").retry_after == seconds


@pytest.mark.anyio
async def test_rt_r2_a_date_rounds_up_to_whole_seconds(fake_clock):
    await fake_clock.advance(0.001)
    assert retry_after({"retry-after": "Tue, 14 Nov 2023 22:13:22 GMT"}) == 2

    await fake_clock.advance(0.998)
    assert retry_after({"retry-after": "Tue, 14 Nov 2023 22:13:22 GMT"}) == 2


def test_rt_r2_dates_are_in_universal_time_wherever_the_program_runs(fake_clock, monkeypatch):
    import time

    for zone in ("Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert retry_after({"retry-after": "Tue Nov 14 22:14:05 2023"}) == 45

    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "hint",
    [
        "",
        "-1",
        "-0.5",
        "nan",
        "inf",
        "-inf",
        "soon",
        "1e999",
        "12 parsecs",
        "99 Nov 2023",
        "\u0663x",
        "Tue, 14 Nov 99999 22:14:05 GMT",
    ],
)
def test_rt_r2_negative_and_unreadable_hints_are_ignored(fake_clock, hint):
    assert retry_after({"retry-after": hint}) is None
    assert retry_after({"retry-after-ms": hint}) is None


def test_rt_r2_no_hint_is_no_hint():
    assert retry_after({}) is None
    assert error_from_status(429, None, None).retry_after is None


@given(
    hint=st.one_of(
        st.text(), st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6} \d{1,3}:\d{1,3}:\d{1,3} \S{0,6}")
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rt_r2_no_hint_raises(fake_clock, hint):
    for header in ("retry-after", "retry-after-ms"):
        seconds = retry_after({header: hint})

        assert seconds is None or seconds >= 0


@pytest.mark.parametrize(("said", "retryable"), [("true", True), ("false", False), ("TRUE", True), ("maybe", None)])
def test_the_vendor_may_say_whether_to_try_again(said, retryable):
    for status, by_itself in ((500, True), (400, False), (409, True)):
        error = error_from_status(status, {"X-Should-Retry": said}, "")

        assert error.retryable is (by_itself if retryable is None else retryable)


def test_w_prv_1_the_error_carries_what_is_known():
    error = error_from_status(
        429,
        {"Request-Id": "req_1", "Retry-After": "3"},
        {"error": {"type": "rate_limit_error", "message": "slow down"}},
    )

    assert (error.status, error.code, error.request_id, error.retry_after) == (429, "rate_limit_error", "req_1", 3)
    assert "slow down" in str(error)
    assert error_from_status(500, {"x-request-id": "abc"}, "").request_id == "abc"


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"error": {"message": "m", "code": None, "type": "t"}}, "m", "t"),
        ({"error": {"message": "m", "code": 0}}, "m", "0"),
        ({"error": "just words"}, "just words", None),
        ({"error": "a_code", "message": "the words"}, "the words", "a_code"),
        ({"error": None, "message": "m"}, "m", None),
        ({"message": "m", "type": "t"}, "m", "t"),
        ({"detail": "not allowed"}, "not allowed", None),
        ([{"error": {"message": "m", "status": "UNAVAILABLE"}}], "m", "UNAVAILABLE"),
        ('{"error": {"message": "m"}}', "m", None),
        ("<html>Bad Gateway</html>", "<html>Bad Gateway</html>", None),
        (b"caf\xe9", "caf\ufffd", None),
        ('"a text"', '"a text"', None),
        ("[" * 100_000, "[" * 2_000 + "... (98000 more characters)", None),
        ({"error": {"message": "half \ud800 a sign"}}, "half ? a sign", None),
        (
            {"error": {"code": "\u00b2\u00b2\u00b2"}},
            "the service gives no reason but \u00b2\u00b2\u00b2",
            "\u00b2\u00b2\u00b2",
        ),
        (None, "the service gives no reason but status 500", None),
        (7, "the service gives no reason but status 500", None),
        ([], "the service gives no reason but status 500", None),
    ],
)
def test_every_shape_of_body_is_read(body, message, code):
    error = error_from_status(500, {}, body)

    assert str(error) == message
    assert error.code == code


def test_a_long_body_is_shortened():
    shown = "x" * 2_000 + "... (8000 more characters)"

    assert str(error_from_status(500, {}, "x" * 10_000)) == shown
    assert str(error_from_status(500, {}, {"error": {"message": "x" * 10_000}})) == shown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "status", "detail"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(status=st.none() | st.integers(100, 999), body=JSON)
def test_any_answer_gives_a_typed_error(status, body):
    for form in (body, json.dumps(body), json.dumps(body).encode()):
        error = error_from_status(status, {}, form)

        assert isinstance(error, ProviderError)
        assert str(error)
