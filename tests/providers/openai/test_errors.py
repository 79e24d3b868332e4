from __future__ import annotations

import anyio
import httpx2
import openai
import pytest
from simulacra_openai.errors import translate, vendor_errors

from simulacra import errors

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")


def response(status, headers=None):
    return httpx2.Response(status, headers=headers, request=REQUEST)


def status_error(kind, status, body=None, headers=None):
    return kind("m", response=response(status, headers), body=body or {"message": "no"})


CAUSES = {
    openai.BadRequestError: (status_error(openai.BadRequestError, 400), errors.BadRequestError),
    openai.AuthenticationError: (status_error(openai.AuthenticationError, 401), errors.AuthenticationError),
    openai.OAuthError: (openai.OAuthError(response=response(401), body={}), errors.AuthenticationError),
    openai.PermissionDeniedError: (status_error(openai.PermissionDeniedError, 403), errors.PermissionDeniedError),
    openai.NotFoundError: (status_error(openai.NotFoundError, 404), errors.NotFoundError),
    openai.ConflictError: (status_error(openai.ConflictError, 409), errors.BadRequestError),
    openai.UnprocessableEntityError: (status_error(openai.UnprocessableEntityError, 422), errors.BadRequestError),
    openai.RateLimitError: (status_error(openai.RateLimitError, 429), errors.RateLimitError),
    openai.InternalServerError: (status_error(openai.InternalServerError, 503), errors.OverloadedError),
    openai.APIStatusError: (status_error(openai.APIStatusError, 418), errors.BadRequestError),
    openai.APITimeoutError: (openai.APITimeoutError(REQUEST), errors.TimeoutExceededError),
    openai.APIConnectionError: (openai.APIConnectionError(request=REQUEST), errors.ConnectionFailedError),
    openai.APIResponseValidationError: (
        openai.APIResponseValidationError(response(200), body=None),
        errors.ProtocolError,
    ),
    openai.APIError: (openai.APIError("m", REQUEST, body={"type": "overloaded_error"}), errors.OverloadedError),
    openai.ContentFilterFinishReasonError: (openai.ContentFilterFinishReasonError(), errors.ContentFilteredError),
    openai.OpenAIError: (openai.OpenAIError("m"), errors.ProviderError),
}
CREDENTIALS = dict.fromkeys(["SubjectTokenProviderError", "MutuallyExclusiveAuthError"], errors.AuthenticationError)


def sdk_errors():
    """Every exception class of the SDK, wherever it stands."""
    found = [openai.OpenAIError]

    for kind in found:
        found += (below for below in kind.__subclasses__() if below not in found)

    return sorted((kind for kind in found if kind.__module__.startswith("openai")), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", sdk_errors(), ids=lambda kind: kind.__name__)
def test_w_prv_1_every_error_of_the_sdk_is_one_of_the_engine(kind):
    known = next((CAUSES[base] for base in kind.__mro__ if base in CAUSES), None)
    assert known is not None
    cause, expected = CAUSES.get(kind, (None, CREDENTIALS.get(kind.__name__, errors.ProviderError)))

    if cause is None:  # a class that no request raises: whatever it is, it is not let through
        cause = kind.__new__(kind)

    assert type(translate(cause, reading=False)) is expected


def test_w_prv_1_the_error_carries_what_the_vendor_said_and_its_cause():
    headers = {"x-request-id": "req_1", "retry-after": "7"}
    cause = status_error(openai.RateLimitError, 429, {"message": "slow", "code": "rate_limit_exceeded"}, headers)

    with pytest.raises(errors.RateLimitError) as raised, vendor_errors(reading=False):
        raise cause

    error = raised.value
    assert (error.status, error.code, error.request_id, error.retry_after) == (429, "rate_limit_exceeded", "req_1", 7)
    assert error.__cause__ is cause
    assert str(error) == "slow (http://127.0.0.1/v1/chat/completions)"


@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.parametrize("body", [None, "Bad gateway", {"detail": "no"}, {"message": "no"}])
def test_w_prv_1_any_body_of_a_failure_is_read(status, body):
    cause = openai.APIStatusError("m", response=response(status), body=body)

    assert isinstance(translate(cause, reading=False), errors.ProviderError)


@pytest.mark.parametrize(
    "text",
    [
        {"message": "prompt is too long: 210000 tokens > 200000"},
        {"message": "x", "code": "context_length_exceeded"},
        {"message": "exceeds model's maximum context length (262144)"},
        {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"},
    ],
)
def test_cp_08_an_overflow_in_any_wording_is_a_context_window_error(text):
    assert isinstance(
        translate(status_error(openai.BadRequestError, 400, text), reading=False), errors.ContextWindowError
    )


def test_a_prompt_that_the_service_filters_is_a_content_filter_error():
    error = translate(
        status_error(openai.BadRequestError, 400, {"code": "content_filter", "message": "m"}), reading=False
    )

    assert type(error) is errors.ContentFilteredError
    assert not error.retryable


@pytest.mark.parametrize(
    ("error", "reading", "expected"),
    [
        (httpx2.ReadTimeout("m"), True, errors.TimeoutExceededError),
        (httpx2.ConnectTimeout("m"), False, errors.TimeoutExceededError),
        (httpx2.ReadError("m"), True, errors.StreamInterruptedError),
        (httpx2.RemoteProtocolError("m"), True, errors.StreamInterruptedError),
        (httpx2.RemoteProtocolError("m"), False, errors.ConnectionFailedError),
        (httpx2.StreamClosed(), True, errors.StreamInterruptedError),
        (httpx2.DecodingError("m"), True, errors.ProtocolError),
        (httpx2.InvalidURL("m"), False, errors.ConfigurationError),
        (anyio.EndOfStream(), True, errors.StreamInterruptedError),
        (ConnectionResetError(), True, errors.StreamInterruptedError),
    ],
)
def test_w_prv_1_errors_of_the_http_client(error, reading, expected):
    assert type(translate(error, reading=reading)) is expected


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (httpx2.ConnectError("refused"), errors.ConnectionFailedError),
        (httpx2.UnsupportedProtocol("no scheme"), errors.ConfigurationError),
        (httpx2.LocalProtocolError("bad header"), errors.ConfigurationError),
    ],
)
def test_w_prv_1_a_connection_error_tells_its_cause_and_the_address(cause, expected):
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = cause
    translated = translate(error, reading=False)

    assert type(translated) is expected
    assert str(cause) in str(translated)
    assert "127.0.0.1" in str(translated)


def test_w_prv_1_errors_of_the_engine_and_of_strangers_pass():
    own = errors.ProtocolError("mine")

    for error in (own, KeyError("x")):
        with pytest.raises(type(error)) as raised, vendor_errors(reading=True):
            raise error

        assert raised.value is error


def test_every_class_that_the_sdk_exports_is_walked():
    exported = {
        value for value in list(vars(openai).values()) if isinstance(value, type) and issubclass(value, Exception)
    }

    assert exported - set(sdk_errors()) == {openai.InvalidWebhookSignatureError}
    assert len(sdk_errors()) > 20


def test_rt_05_used_up_credit_is_not_worth_repeating():
    body = {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}
    error = translate(status_error(openai.RateLimitError, 429, body, {"x-should-retry": "true"}), reading=False)

    assert type(error) is errors.QuotaExceededError
    assert not error.retryable


def test_a_key_never_stands_in_an_errors_text():
    asked = httpx2.Request(
        "POST",
        "http://me:pw@127.0.0.1/v1/chat/completions?key=hidden",
        headers={"authorization": "Bearer my-own-key-1"},
    )
    answer = httpx2.Response(401, request=asked)
    message = "Incorrect API key provided: sk-abc12***xyz. Your header was Bearer my-own-key-1."
    error = translate(openai.AuthenticationError("m", response=answer, body={"message": message}), reading=False)

    assert "my-own-key-1" not in str(error)
    assert "sk-abc12" not in str(error)
    assert "hidden" not in str(error)
    assert "pw" not in str(error)
    assert "(http://127.0.0.1/v1/chat/completions)" in str(error)
