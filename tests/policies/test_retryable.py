"""What is worth another attempt."""

from __future__ import annotations

import errno
import socket

import pytest

from simulacra.cancellation import CancellationToken
from simulacra.errors import (
    AuthenticationError,
    BadRequestError,
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


class StatusError(Exception):
    """What another library raises: an error with facts on it."""

    def __init__(self, **facts):
        super().__init__("failed")
        self.__dict__.update(facts)


def caused_by(cause: BaseException) -> Exception:
    error = RuntimeError("outer")
    error.__cause__ = cause

    return error


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
