"""How long the server asks to wait."""

from __future__ import annotations

import itertools

import pytest

from simulacra.cancellation import CancellationToken
from simulacra.errors import RateLimitError
from simulacra.http_errors import error_from_status
from simulacra.policies import RetryPolicy

pytestmark = pytest.mark.anyio


class StatusError(Exception):
    """What another library raises: an error with facts on it."""

    def __init__(self, **facts):
        super().__init__("failed")
        self.__dict__.update(facts)


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
