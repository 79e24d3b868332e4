"""One rule for cancellation, the same for every policy."""

from __future__ import annotations

import anyio
import pytest

from simulacra.cancellation import CancellationToken
from simulacra.errors import ConnectionFailedError, OperationCancelledError
from simulacra.policies import CompositePolicy, NoopPolicy, Policy, RetryPolicy, default_policy

pytestmark = pytest.mark.anyio

POLICIES = {
    "noop": NoopPolicy,
    "retry": lambda: RetryPolicy(3, 1000, 2),
    "default": default_policy,
    "empty": CompositePolicy,
    "nested": lambda: CompositePolicy(NoopPolicy(), RetryPolicy(2, 1000, 2), CompositePolicy(NoopPolicy())),
}


@pytest.fixture(params=sorted(POLICIES))
def policy(request: pytest.FixtureRequest) -> Policy:
    return POLICIES[request.param]()


async def test_pol_13_a_cancelled_token_starts_nothing(policy, outcomes, source):
    fn = outcomes("value")
    source.cancel()

    with pytest.raises(OperationCancelledError) as caught:
        await policy.execute(source.token, fn)

    assert caught.value.token is source.token
    assert fn.calls == []


async def test_pol_13_cancelling_ends_what_runs(policy, source):
    cleaned = []

    async def fn():
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append(True)

    async with anyio.create_task_group() as group:

        async def run():
            with pytest.raises(OperationCancelledError):
                await policy.execute(source.token, fn)

            cleaned.append("returned")

        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        source.cancel()

    assert cleaned == [True, "returned"]


async def test_pol_13_a_failure_caused_by_the_cancel_is_a_cancellation(policy, source):
    calls = []

    async def fn():
        calls.append(1)
        source.cancel()
        raise ConnectionFailedError("aborted")

    with pytest.raises(OperationCancelledError):
        await policy.execute(source.token, fn)

    assert calls == [1]


async def test_pol_13_a_stream_opened_in_spite_of_the_cancel_is_closed(policy, source, closable):
    async def fn():
        source.cancel()
        return closable

    with pytest.raises(OperationCancelledError):
        await policy.execute(source.token, fn)

    assert closable.closed == 1


async def test_pol_13_a_stream_that_hangs_while_closing_holds_nobody_up(source, fake_clock):
    class Hanging:
        async def aclose(self):
            await anyio.sleep_forever()

    async def fn():
        source.cancel()
        return Hanging()

    done = []

    async def run():
        with pytest.raises(OperationCancelledError):
            await NoopPolicy().execute(source.token, fn)

        done.append(fake_clock.monotonic())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await fake_clock.advance(0.1)

    assert done
    assert done[0] <= 0.1


async def test_pol_13_a_cancellation_of_something_inside_is_raised_too(policy, outcomes):
    with pytest.raises(OperationCancelledError):
        await policy.execute(CancellationToken(), outcomes(OperationCancelledError()))


async def test_gen_7_the_loops_own_cancellation_passes_through(policy, source):
    seen = []

    async def fn():
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            seen.append("fn")
            raise

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def run():
                try:
                    await policy.execute(source.token, fn)
                except anyio.get_cancelled_exc_class():
                    seen.append("policy")
                    raise

            group.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught
    assert seen == ["fn", "policy"]


async def test_w_pol_8_no_handler_is_left_on_the_token(outcomes, source, fake_clock):
    policy = CompositePolicy(RetryPolicy(50, 0, 1), NoopPolicy())
    fn = outcomes(ConnectionFailedError("gone"))

    result = await policy.execute(source.token, fn)

    assert result.metadata["policies"]["RetryPolicy[0]"]["attempts"] == len(fn.calls) == 50
    assert source.token._handlers == []
    assert fake_clock.pending == 0


async def test_w_pol_8_no_handler_is_left_after_a_cancelled_wait(outcomes, source, fake_clock):
    async with anyio.create_task_group() as group:

        async def run():
            with pytest.raises(OperationCancelledError):
                await RetryPolicy(2, 60, 1).execute(source.token, outcomes(ConnectionFailedError("gone")))

        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        source.cancel()

    assert source.token._handlers == []
    assert fake_clock.pending == 0
