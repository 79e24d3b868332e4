"""Tokens are counted by the service itself."""

from __future__ import annotations

import httpx2
import pytest
from openai import AsyncOpenAI
from simulacra_openai.responses import OpenAIResponsesProvider

from simulacra.errors import AuthenticationError, ProtocolError
from simulacra.provider import OutputRequest
from simulacra.schema import ToolDefinition
from simulacra.testing.driving import request, user

pytestmark = pytest.mark.anyio


async def test_w_prv_2_tokens_are_counted_by_the_service(serve):
    async with serve([], service_tier="flex", store=False) as (emulator, provider):
        short = await provider.count_tokens(request(user("a")))
        long = await provider.count_tokens(
            request(
                user("a" * 4000),
                system=("Be brief.",),
                tools=(ToolDefinition(name="add", description="Add."),),
                output=OutputRequest(schema={"type": "object", "title": "Sum", "properties": {}}),
            )
        )

    sent = emulator.side_requests[1]
    assert long - short >= 1000
    assert sent.path == "/v1/responses/input_tokens"
    assert {"model", "input", "tools", "text"} <= sent.body.keys()
    assert not sent.body.keys() & {"stream", "store", "service_tier", "include", "max_output_tokens"}
    assert emulator.requests == []


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (httpx2.Response(401, json={"error": {"message": "no", "code": "invalid_api_key"}}), AuthenticationError, "no"),
        (httpx2.Response(200, json={}), ProtocolError, "counted no tokens: {}"),
        (httpx2.Response(200, text="<html>"), ProtocolError, "counted no tokens: <html>"),
    ],
)
async def test_w_prv_2_a_count_that_fails_is_a_typed_error(answer, error, says):
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda asked: answer)) as http:
        provider = OpenAIResponsesProvider(AsyncOpenAI(api_key="k", http_client=http, max_retries=0), model="m")

        with pytest.raises(error, match=says):
            await provider.count_tokens(request(user("hi")))
