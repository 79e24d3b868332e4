from __future__ import annotations

import inspect

import anthropic
import httpx2
import pytest
from anthropic import _error_classes, _exceptions
from simulacra_anthropic.errors import translate, vendor_errors

from simulacra import errors

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/messages")
FINAL = {
    400: errors.BadRequestError,
    401: errors.AuthenticationError,
    402: errors.BadRequestError,
    403: errors.PermissionDeniedError,
    404: errors.NotFoundError,
    408: errors.TimeoutExceededError,
    409: errors.BadRequestError,
    412: errors.BadRequestError,
    413: errors.BadRequestError,
    422: errors.BadRequestError,
    429: errors.RateLimitError,
    431: errors.BadRequestError,
    499: errors.BadRequestError,
    501: errors.ServerError,
    503: errors.OverloadedError,
    504: errors.ServerError,
    529: errors.OverloadedError,
}
OTHERS = {
    anthropic.APITimeoutError: (anthropic.APITimeoutError(REQUEST), errors.TimeoutExceededError),
    anthropic.APIConnectionError: (anthropic.APIConnectionError(request=REQUEST), errors.ConnectionFailedError),
    anthropic.APIResponseValidationError: (
        anthropic.APIResponseValidationError(httpx2.Response(200, request=REQUEST), body=None),
        errors.ProtocolError,
    ),
    anthropic.APIWebhookValidationError: (
        anthropic.APIWebhookValidationError("m", REQUEST, body=None),
        errors.ServerError,
    ),
    anthropic.APIError: (
        anthropic.APIError("m", REQUEST, body={"error": {"type": "overloaded_error"}}),
        errors.OverloadedError,
    ),
    anthropic.IdentityTokenFileError: (anthropic.IdentityTokenFileError("m"), errors.AuthenticationError),
    anthropic.CredentialsError: (anthropic.CredentialsError("m"), errors.AuthenticationError),
}


def sdk_errors():
    """Every exception class that the SDK defines, the ones made for single error codes included."""
    found = {
        value
        for module in (_exceptions, _error_classes, anthropic)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, _exceptions.AnthropicError)
    }

    return sorted(found, key=lambda kind: kind.__name__)


def status_error(status, error=None, *, kind=anthropic.APIStatusError, headers=None):
    answer = httpx2.Response(status, headers=headers, request=REQUEST)
    body = {"type": "error", "error": error or {"type": "future_error", "message": "no"}}

    return kind("m", response=answer, body=body)


def made(kind):
    """An error of this class, as the SDK would raise it, and what it is to the engine."""
    if kind in OTHERS:
        return OTHERS[kind]

    if issubclass(kind, anthropic.APIStatusError):
        status = getattr(kind, "status_code", 500)
        return status_error(status, kind=kind), FINAL.get(status, errors.ServerError)

    return kind("m"), errors.ProviderError


def test_w_prv_1_the_sdk_has_more_than_its_plain_errors():
    assert len(sdk_errors()) > 60


@pytest.mark.parametrize("kind", sdk_errors(), ids=lambda kind: kind.__name__)
def test_w_prv_1_every_error_of_the_sdk_is_one_of_the_engine(kind):
    cause, expected = made(kind)

    assert type(translate(cause, reading=False)) is expected


def test_w_prv_1_the_error_carries_what_the_vendor_said_and_its_cause():
    headers = {"request-id": "req_1", "retry-after": "7"}
    cause = status_error(429, {"type": "rate_limit_error", "message": "slow"}, headers=headers)

    with pytest.raises(errors.RateLimitError) as raised, vendor_errors(reading=False):
        raise cause

    error = raised.value
    assert (error.status, error.code, error.request_id, error.retry_after) == (429, "rate_limit_error", "req_1", 7)
    assert error.__cause__ is cause
    assert str(error) == "slow (http://127.0.0.1/v1/messages)"


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (402, {"type": "billing_error", "message": "m"}, errors.QuotaExceededError),
        (429, {"type": "billing_error", "message": "m"}, errors.QuotaExceededError),
        (
            429,
            {"type": "rate_limit_error", "message": "m", "details": {"error_code": "enforced_spend_limit_reached"}},
            errors.QuotaExceededError,
        ),
        (
            429,
            {"type": "rate_limit_error", "message": "m", "details": {"error_code": "ramp_limit_exceeded"}},
            errors.RateLimitError,
        ),
        (400, {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}, errors.ContextWindowError),
        (413, {"type": "request_too_large", "message": "m"}, errors.BadRequestError),
        (400, {"type": "invalid_request_error", "message": "m", "details": None}, errors.BadRequestError),
    ],
)
def test_rt_05_used_up_credit_and_overflow_are_told_apart(status, error, expected):
    assert type(translate(status_error(status, error), reading=False)) is expected


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (httpx2.ConnectError("refused"), errors.ConnectionFailedError),
        (httpx2.UnsupportedProtocol("no scheme"), errors.ConfigurationError),
    ],
)
def test_w_prv_1_a_connection_error_tells_its_cause_and_the_address(cause, expected):
    error = anthropic.APIConnectionError(request=REQUEST)
    error.__cause__ = cause
    translated = translate(error, reading=False)

    assert type(translated) is expected
    assert str(cause) in str(translated)
    assert "127.0.0.1" in str(translated)


def test_w_prv_1_errors_of_strangers_pass():
    with pytest.raises(KeyError), vendor_errors(reading=True):
        raise KeyError("x")

    assert type(translate(httpx2.ReadError("m"), reading=True)) is errors.StreamInterruptedError
