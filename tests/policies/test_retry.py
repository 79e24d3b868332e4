from __future__ import annotations

import errno
import itertools
import json
import socket
import subprocess
import sys

import anyio
import pytest

from simulacra.cancellation import CancellationToken
from simulacra.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ConnectionFailedError,
    ContentFilteredError,
    ContextWindowError,
    OperationCancelledError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamInterruptedError,
    TimeoutExceededError,
)
from simulacra.http_errors import error_from_status
from simulacra.policies import RetryPolicy, default_retryable

pytestmark = pytest.mark.anyio

GONE = ConnectionFailedError("gone")


class StatusError(Exception):
    def __init__(self, **facts):
        super().__init__("failed")
        self.__dict__.update(facts)


def caused_by(cause: BaseException) -> Exception:
    error = RuntimeError("outer")
    error.__cause__ = cause

    return error


# POL-4: attempts, waits, bounds


async def test_pol_4_the_first_attempt_counts(jumping, outcomes):
    for attempts in (1, 2, 5):
        fn = outcomes(GONE)
        result = await RetryPolicy(attempts, 1, 2).execute(CancellationToken(), fn)

        assert len(fn.calls) == attempts
        assert result.error is GONE


async def test_pol_4_an_error_that_is_not_retryable_ends_it(jumping, outcomes):
    fn = outcomes(BadRequestError("no"), "value")

    result = await RetryPolicy(5, 1, 2).execute(CancellationToken(), fn)

    assert isinstance(result.error, BadRequestError)
    assert len(fn.calls) == 1
    assert jumping.sleeps == []


async def test_pol_4_the_caller_may_say_what_is_retryable(jumping, outcomes):
    fn = outcomes(KeyError("x"), "value")

    result = await RetryPolicy(5, 1, 2, lambda error: isinstance(error, KeyError)).execute(CancellationToken(), fn)

    assert result.value == "value"
    assert len(fn.calls) == 2


async def test_pol_4_without_jitter_waits_grow_up_to_the_bound(jumping, outcomes):
    await RetryPolicy(7, 1000, 3, max_backoff_ms=20_000, max_total_ms=1_000_000, jitter=False).execute(
        CancellationToken(), outcomes(GONE)
    )

    assert jumping.sleeps == [1, 3, 9, 20, 20, 20]


async def test_pol_4_full_jitter_draws_from_zero_to_the_bound(jumping, outcomes):
    draws = iter([0.0, 0.5, 0.25, 0.999])

    await RetryPolicy(5, 1000, 2, random=lambda: next(draws)).execute(CancellationToken(), outcomes(GONE))

    assert jumping.sleeps == pytest.approx([0, 1, 1, 7.992])


async def test_pol_4_jitter_is_on_by_default(jumping, outcomes):
    waits = []

    for _ in range(20):
        jumping.sleeps.clear()
        await RetryPolicy(2, 1000, 2).execute(CancellationToken(), outcomes(GONE))
        waits += jumping.sleeps

    assert all(0 <= wait <= 1 for wait in waits)
    assert len(set(waits)) > 1


async def test_pol_4_a_wait_that_would_pass_the_total_is_not_begun(jumping, outcomes):
    fn = outcomes(GONE)

    result = await RetryPolicy(9, 1000, 2, max_total_ms=7000, jitter=False).execute(CancellationToken(), fn)

    assert jumping.sleeps == [1, 2, 4]
    assert result.error is GONE
    assert jumping.monotonic() == 7


async def test_pol_4_the_time_of_attempts_counts_into_the_total(jumping):
    calls = []

    async def slow():
        calls.append(1)
        await jumping.sleep(6)
        raise GONE

    await RetryPolicy(9, 1000, 1, max_total_ms=10_000, jitter=False).execute(CancellationToken(), slow)

    assert len(calls) == 2


async def test_pol_4_cancelling_ends_a_wait_at_once(fake_clock, outcomes, source):
    fn = outcomes(GONE)
    ended = []

    async def run():
        with pytest.raises(OperationCancelledError):
            await RetryPolicy(3, 60_000, 2, jitter=False, max_backoff_ms=60_000).execute(source.token, fn)

        ended.append(fake_clock.monotonic())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await fake_clock.advance(5)
        source.cancel()
        await fake_clock.advance(0)

        assert ended == [5]

    assert len(fn.calls) == 1


async def test_pol_4_growth_beyond_all_numbers_stays_within_the_bound():
    policy = RetryPolicy(10_000, 1, 2.5, max_backoff_ms=30_000)

    assert policy.backoff_ms(9_999) == 30_000
    assert RetryPolicy(10_000, 0, 2.5).backoff_ms(9_999) == 0
    assert RetryPolicy(10_000, 1, 3).backoff_ms(9_999) == 30_000


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 2.5},
        {"max_attempts": True},
        {"max_attempts": "3"},
        {"initial_backoff_ms": -1},
        {"initial_backoff_ms": float("nan")},
        {"backoff_factor": 0.5},
        {"max_backoff_ms": -1},
        {"max_total_ms": -1},
        {"max_total_ms": None},
    ],
)
async def test_pol_4_numbers_out_of_range_are_refused(arguments):
    given = {"max_attempts": 3, "initial_backoff_ms": 1, "backoff_factor": 2} | arguments

    with pytest.raises(ConfigurationError, match=next(iter(arguments))):
        RetryPolicy(**given)


async def test_pol_4_policies_run_side_by_side_without_mixing_their_counts(jumping, outcomes):
    policy = RetryPolicy(4, 1000, 1, jitter=False)
    wanted = {}

    async with anyio.create_task_group() as group:
        for failures in range(4):

            async def run(failures=failures):
                fn = outcomes(*[GONE] * failures, "value")
                wanted[failures] = (await policy.execute(CancellationToken(), fn)).metadata["attempts"]

            group.start_soon(run)

    assert wanted == {0: 1, 1: 2, 2: 3, 3: 4}


# POL-5: the record


async def test_pol_5_three_failed_attempts(jumping, outcomes):
    result = await RetryPolicy(3, 1, 2, jitter=False).execute(CancellationToken(), outcomes(GONE))

    assert result.metadata == {
        "policy": "RetryPolicy",
        "attempts": 3,
        "max_attempts": 3,
        "initial_backoff_ms": 1,
        "backoff_factor": 2,
        "last_error": "ConnectionFailedError: gone",
        "last_backoff_ms": 2,
    }


async def test_pol_5_a_first_success_has_neither_error_nor_wait(outcomes):
    result = await RetryPolicy(3, 1, 2).execute(CancellationToken(), outcomes("value"))

    assert result.metadata == {
        "policy": "RetryPolicy",
        "attempts": 1,
        "max_attempts": 3,
        "initial_backoff_ms": 1,
        "backoff_factor": 2,
    }


async def test_pol_5_success_after_a_failure_keeps_what_went_wrong(jumping, outcomes):
    result = await RetryPolicy(3, 8, 2, jitter=False).execute(CancellationToken(), outcomes(GONE, "value"))

    assert result.metadata["attempts"] == 2
    assert result.metadata["last_error"] == "ConnectionFailedError: gone"
    assert result.metadata["last_backoff_ms"] == 8


async def test_pol_5_the_record_is_json_whatever_the_error_says(outcomes):
    result = await RetryPolicy(1, 1, 2).execute(CancellationToken(), outcomes(ServerError("bad \ud800 text")))

    assert json.dumps(result.metadata, ensure_ascii=False).encode()


# POL-6: what is retryable


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OperationCancelledError(), False),
        (ConnectionFailedError("x"), True),
        (TimeoutExceededError("x"), True),
        (RateLimitError("x"), True),
        (OverloadedError("x"), True),
        (ServerError("x"), True),
        (StreamInterruptedError("x"), True),
        (ProtocolError("x"), True),
        (QuotaExceededError("x"), False),
        (AuthenticationError("x"), False),
        (ContextWindowError("x"), False),
        (ContentFilteredError("x"), False),
        (BadRequestError("x"), False),
        (BadRequestError("x", retryable=True), True),
        (ServerError("x", retryable=False), False),
        (ProviderError("x", status=500), False),
        *((StatusError(status=status), True) for status in (408, 409, 429, 500, 501, 502, 503, 504, 520, 529, 599)),
        *((StatusError(status=status), False) for status in (200, 302, 400, 401, 402, 403, 404, 413, 418, 422, 600)),
        (StatusError(status_code=503), True),
        (StatusError(status_code=401), False),
        (StatusError(status="429"), False),
        (StatusError(status=True), False),
        (StatusError(status=None, status_code=500), True),
        (ConnectionError("x"), True),
        (ConnectionResetError(), True),
        (BrokenPipeError(), True),
        (TimeoutError(), True),
        *(
            (OSError(getattr(errno, name), "x"), True)
            for name in (
                "ECONNRESET",
                "ECONNREFUSED",
                "ECONNABORTED",
                "ETIMEDOUT",
                "ENETUNREACH",
                "EHOSTUNREACH",
                "EPIPE",
            )
        ),
        (OSError(errno.ENOENT, "x"), False),
        (PermissionError(errno.EACCES, "x"), False),
        (socket.gaierror(socket.EAI_AGAIN, "x"), True),
        (socket.gaierror(socket.EAI_NONAME, "x"), False),
        (ValueError("connection reset, please retry"), False),
        (Exception("429 too many requests"), False),
        (KeyboardInterrupt(), False),
        (caused_by(ConnectionResetError()), True),
        (caused_by(OSError(errno.EHOSTUNREACH, "x")), True),
        (caused_by(caused_by(TimeoutError())), True),
        (caused_by(ValueError("timeout")), False),
        (caused_by(KeyError("x")), False),
    ],
    ids=repr,
)
async def test_pol_6_default_retryable(error, expected):
    assert default_retryable(error) is expected


async def test_pol_6_a_status_outranks_the_cause():
    error = StatusError(status=400)
    error.__cause__ = ConnectionResetError()

    assert default_retryable(error) is False


async def test_pol_6_causes_in_a_ring_end():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first

    assert default_retryable(first) is False


async def test_w_pol_5_texts_decide_nothing(jumping, outcomes):
    refused = outcomes(AuthenticationError("request failed: connection timeout, try again"))
    unreachable = outcomes(ConnectionError("no code here"), "value")

    first = await RetryPolicy(3, 1, 2).execute(CancellationToken(), refused)
    second = await RetryPolicy(3, 1, 2).execute(CancellationToken(), unreachable)

    assert isinstance(first.error, AuthenticationError)
    assert len(refused.calls) == 1
    assert second.value == "value"


# W-POL-4 and the area "Retry": hints


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "45"}, 45),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:05 GMT"}, 45),
        ({"retry-after-ms": "45500"}, 45.5),
        ({"retry-after": "0"}, 0),
    ],
)
async def test_w_pol_4_a_hint_is_obeyed_to_the_letter(jumping, outcomes, headers, seconds):
    error = error_from_status(429, headers, {"error": {"message": "slow down"}})
    policy = RetryPolicy(2, 1000, 2, max_backoff_ms=2000)

    result = await policy.execute(CancellationToken(), outcomes(error, "value"))

    assert jumping.sleeps == [seconds]
    assert result.value == "value"
    assert result.metadata["last_backoff_ms"] == seconds * 1000


async def test_w_pol_4_a_hint_beyond_the_total_raises_at_once(fake_clock, outcomes):
    fn = outcomes(RateLimitError("slow down", retry_after=121))

    result = await RetryPolicy(5, 1000, 2).execute(CancellationToken(), fn)

    assert isinstance(result.error, RateLimitError)
    assert result.error.retry_after == 121
    assert len(fn.calls) == 1
    assert fake_clock.sleeps == []
    assert "last_backoff_ms" not in result.metadata


async def test_w_pol_4_the_total_counts_what_was_waited_before(jumping, outcomes):
    fn = outcomes(RateLimitError("slow", retry_after=70), RateLimitError("slow", retry_after=70))

    result = await RetryPolicy(5, 1000, 2).execute(CancellationToken(), fn)

    assert jumping.sleeps == [70]
    assert isinstance(result.error, RateLimitError)


@pytest.mark.parametrize("hint", [-1, float("nan"), float("inf"), True, "12", None])
async def test_rt_r2_unreadable_hints_leave_the_back_off(jumping, outcomes, hint):
    await RetryPolicy(2, 1500, 2, jitter=False).execute(
        CancellationToken(), outcomes(StatusError(status=429, retry_after=hint), "value")
    )

    assert jumping.sleeps == [1.5]


async def test_rt_r2_no_hint_is_shortened(jumping, outcomes):
    for hint in itertools.chain(range(0, 120, 7), (0.001, 0.007, 1.1, 3.3, 59.9999999)):
        jumping.sleeps.clear()
        await RetryPolicy(2, 1, 2).execute(CancellationToken(), outcomes(RateLimitError("x", retry_after=hint), "v"))

        assert jumping.sleeps == [hint]


async def test_rt_03_a_long_hint_is_waited_for_when_the_total_allows_it(jumping, outcomes):
    error = error_from_status(429, {"Retry-After": "171"}, "")

    result = await RetryPolicy(3, 1000, 2, max_total_ms=300_000).execute(CancellationToken(), outcomes(error, "value"))

    assert result.value == "value"
    assert jumping.monotonic() >= 171


async def test_rt_03_a_long_hint_over_the_total_is_the_error_at_once(fake_clock, outcomes):
    error = error_from_status(429, {"Retry-After": "171"}, "")

    result = await RetryPolicy(3, 1000, 2).execute(CancellationToken(), outcomes(error, "value"))

    assert isinstance(result.error, RateLimitError)
    assert result.error.retry_after == 171
    assert fake_clock.sleeps == []


async def test_rt_05_exhausted_credit_is_asked_once(outcomes, fake_clock):
    fn = outcomes(error_from_status(429, {}, {"error": {"code": "insufficient_quota", "message": "pay"}}))

    result = await RetryPolicy(5, 1, 2).execute(CancellationToken(), fn)

    assert isinstance(result.error, QuotaExceededError)
    assert len(fn.calls) == 1


async def test_rt_r3_an_overload_inside_a_good_status_is_retried(jumping, outcomes):
    fn = outcomes(error_from_status(200, {}, {"type": "error", "error": {"type": "overloaded_error"}}), "value")

    result = await RetryPolicy(3, 1, 2).execute(CancellationToken(), fn)

    assert result.value == "value"
    assert result.metadata["last_error"].startswith("OverloadedError: ")


async def test_rt_01_an_overload_event_before_content_is_retried_once(jumping, outcomes):
    fn = outcomes(error_from_status(200, {}, {"error": {"type": "overloaded_error", "message": "busy"}}), "value")

    result = await RetryPolicy(3, 1, 2).execute(CancellationToken(), fn)

    assert (result.value, len(fn.calls)) == ("value", 2)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 520, 529])
async def test_rt_r4_failures_that_pass_are_repeated(jumping, outcomes, status):
    fn = outcomes(error_from_status(status, {}, ""), "value")

    assert (await RetryPolicy(2, 1, 2).execute(CancellationToken(), fn)).value == "value"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 413, 418, 422, 451])
async def test_rt_r4_every_other_refusal_is_one_request(outcomes, status):
    fn = outcomes(error_from_status(status, {}, ""), "value")

    result = await RetryPolicy(5, 1, 2).execute(CancellationToken(), fn)

    assert isinstance(result.error, ProviderError)
    assert result.error.status == status
    assert len(fn.calls) == 1


def test_pol_4_tenacity_is_imported_when_first_used():
    code = "import sys, simulacra.policies; assert 'tenacity' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
