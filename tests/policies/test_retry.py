"""Attempts, waits and the record of `RetryPolicy`."""

from __future__ import annotations

import json
import subprocess
import sys

import anyio
import pytest

from simulacra.cancellation import CancellationToken
from simulacra.errors import (
    BadRequestError,
    ConfigurationError,
    ConnectionFailedError,
    OperationCancelledError,
    RateLimitError,
    ServerError,
)
from simulacra.policies import RetryPolicy

pytestmark = pytest.mark.anyio

GONE = ConnectionFailedError("gone")


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
        {"initial_backoff_ms": float("inf")},
        {"backoff_factor": float("inf")},
        {"max_backoff_ms": -1},
        {"max_backoff_ms": float("inf")},
        {"max_total_ms": -1},
        {"max_total_ms": None},
    ],
)
async def test_pol_4_numbers_out_of_range_are_refused(arguments):
    given = {"max_attempts": 3, "initial_backoff_ms": 1, "backoff_factor": 2} | arguments

    with pytest.raises(ConfigurationError, match=next(iter(arguments))):
        RetryPolicy(**given)


async def test_pol_4_the_total_may_be_unlimited(jumping, outcomes):
    policy = RetryPolicy(3, 30_000, 1, max_total_ms=float("inf"), jitter=False)
    slow = outcomes(RateLimitError("wait", retry_after=100_000), GONE, "value")

    assert (await policy.execute(CancellationToken(), slow)).value == "value"
    assert jumping.sleeps == [100_000, 30]


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


def test_pol_4_tenacity_is_imported_when_first_used():
    code = "import sys, simulacra.policies; assert 'tenacity' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
