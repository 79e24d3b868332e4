"""Whatever the SDK, its credentials and its HTTP client raise is an error of the engine."""

from __future__ import annotations

import inspect

import httpx2
import pytest
from google.auth import exceptions as auth
from google.genai import errors as sdk
from simulacra_google.errors import reported_error, translate, vendor_errors

from simulacra import errors
from simulacra.testing import EmulatedReply, gemini_stream, http_error
from simulacra.testing.driving import failure_of

pytestmark = pytest.mark.anyio

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1beta/models/m", headers={"x-goog-api-key": "AIza-secret-0123456"})
STATUSES = {
    400: ("INVALID_ARGUMENT", errors.BadRequestError),
    401: ("UNAUTHENTICATED", errors.AuthenticationError),
    403: ("PERMISSION_DENIED", errors.PermissionDeniedError),
    404: ("NOT_FOUND", errors.NotFoundError),
    409: ("ABORTED", errors.BadRequestError),
    429: ("RESOURCE_EXHAUSTED", errors.RateLimitError),
    499: ("CANCELLED", errors.BadRequestError),
    500: ("INTERNAL", errors.ServerError),
    503: ("UNAVAILABLE", errors.OverloadedError),
    504: ("DEADLINE_EXCEEDED", errors.ServerError),
}
OTHERS = {
    sdk.APIError: errors.ServerError,
    sdk.ClientError: errors.BadRequestError,
    sdk.ServerError: errors.OverloadedError,
    sdk.UnknownFunctionCallArgumentError: errors.ConfigurationError,
    sdk.UnsupportedFunctionError: errors.ConfigurationError,
    sdk.FunctionInvocationError: errors.ProviderError,
    sdk.UnknownApiResponseError: errors.ProtocolError,
    sdk.ContinuationInterruptedError: errors.ProviderError,
}
CODES = {sdk.APIError: 500, sdk.ClientError: 400, sdk.ServerError: 503}
MINUTE = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerMinute"}]}
DAY = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDay-FreeTier"}]}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "27.5s"}
PLAN = "You exceeded your current quota, please check your plan and billing details."


def classes_in(module):
    found = {value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, Exception)}

    return sorted((one for one in found if one.__module__ == module.__name__), key=lambda one: one.__name__)


def body_of(status, message="no", details=()):
    return {"error": {"code": status, "message": message, "status": STATUSES[status][0], "details": list(details)}}


def api_error(status, kind=sdk.APIError, headers=None, **told):
    return kind(status, body_of(status, **told), httpx2.Response(status, headers=headers, request=REQUEST))


def made(kind):
    if issubclass(kind, sdk.APIError):
        return api_error(CODES[kind], kind)

    return kind("m")


def test_w_prv_1_every_class_of_the_sdk_is_known_here():
    assert set(classes_in(sdk)) == set(OTHERS)


@pytest.mark.parametrize("kind", list(OTHERS), ids=lambda kind: kind.__name__)
def test_w_prv_1_every_error_of_the_sdk_is_one_of_the_engine(kind):
    assert type(translate(made(kind), reading=False)) is OTHERS[kind]


@pytest.mark.parametrize("kind", classes_in(auth), ids=lambda kind: kind.__name__)
def test_w_prv_1_credentials_that_cannot_be_had_are_told(kind):
    translated = translate(kind("m"), reading=False)

    if not issubclass(kind, auth.GoogleAuthError):
        assert translated is None
    elif issubclass(kind, auth.TransportError | auth.TimeoutError):
        assert type(translated) is errors.ConnectionFailedError
    else:
        assert type(translated) is errors.AuthenticationError
        assert "credentials" in str(translated)


@pytest.mark.parametrize("status", STATUSES)
async def test_goo_4_a_refusal_is_its_typed_error_after_one_request(serve, status):
    word, expected = STATUSES[status]

    async with serve([http_error(status, "because")]) as (emulator, provider):
        error, _ = await failure_of(provider)

    assert type(error) is expected
    assert (error.status, error.code) == (status, word)
    assert "because" in str(error)
    assert len(emulator.requests) == 1  # the SDK's own retries are on, and not used


def test_w_prv_1_the_error_carries_what_the_vendor_said_and_no_key():
    cause = api_error(429, message="slow, AIza-secret-0123456", details=[RETRY])

    with pytest.raises(errors.RateLimitError) as raised, vendor_errors(reading=False):
        raise cause

    error = raised.value
    assert (error.status, error.code, error.retry_after) == (429, "RESOURCE_EXHAUSTED", 27.5)
    assert error.__cause__ is cause
    assert "slow" in str(error)
    assert "127.0.0.1" in str(error)
    assert "AIza" not in str(error)


@pytest.mark.parametrize(
    ("message", "details", "expected"),
    [
        (PLAN, [MINUTE, RETRY], errors.RateLimitError),
        (PLAN, [MINUTE], errors.RateLimitError),
        (PLAN, [RETRY], errors.RateLimitError),
        (PLAN, [DAY, RETRY], errors.QuotaExceededError),
        (PLAN, [], errors.QuotaExceededError),
        ("Your prepayment credits are depleted.", [], errors.QuotaExceededError),
        ("Resource has been exhausted (e.g. check quota).", [], errors.RateLimitError),
    ],
)
def test_rt_05_a_used_up_quota_is_told_from_a_busy_minute(message, details, expected):
    error = translate(api_error(429, message=message, details=details), reading=False)

    assert type(error) is expected
    assert error.retryable is (expected is errors.RateLimitError)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("API key not valid. Please pass a valid API key.", errors.AuthenticationError),
        ("The input token count (9) exceeds the maximum number of tokens allowed (8).", errors.ContextWindowError),
        ("User location is not supported for the API use.", errors.BadRequestError),
    ],
)
def test_a_bad_request_is_what_its_message_says(message, expected):
    assert type(translate(api_error(400, message=message), reading=False)) is expected


@pytest.mark.parametrize(
    "body", ["<html>", None, [], [body_of(503)], {"error": "no"}, {"error": {"details": [3, {"violations": 3}]}}, {}]
)
def test_every_body_of_an_error_is_read(body):
    assert type(reported_error(body, {}, status=503)) is errors.OverloadedError


async def test_goo_4_an_error_inside_a_stream_is_typed_and_retryable(serve):
    body = gemini_stream([body_of(503, "overloaded")])

    async with serve([EmulatedReply(body=body, content_type="text/event-stream")]) as (_, provider):
        error, _ = await failure_of(provider)

    assert type(error) is errors.OverloadedError
    assert error.retryable
    assert "overloaded" in str(error)


async def test_rx_3_a_server_that_is_not_there_is_a_connection_error(connect):
    from simulacra_google import GoogleProvider

    async with connect("http://127.0.0.1:9") as client:
        error, _ = await failure_of(GoogleProvider(client, model="m"))

    assert type(error) is errors.ConnectionFailedError
    assert "127.0.0.1:9" in str(error)


def test_w_prv_1_errors_of_strangers_pass():
    with pytest.raises(KeyError), vendor_errors(reading=True):
        raise KeyError("mine")
