from __future__ import annotations

import json

import pytest

from simulacra.cancellation import CancellationToken
from simulacra.errors import (
    AuthenticationError,
    ConfigurationError,
    ConnectionFailedError,
    OperationCancelledError,
    SimulacraError,
)
from simulacra.policies import CompositePolicy, NoopPolicy, Policy, PolicyResult, RetryPolicy, default_policy

pytestmark = pytest.mark.anyio


class Broken(Policy):
    """A policy that fails itself, against the rules of its port."""

    async def execute(self, cancellation_token, fn, *args):
        raise ConfigurationError("broken policy")


class Mute(Policy):
    """A policy that says it failed, but not why."""

    async def execute(self, cancellation_token, fn, *args):
        return PolicyResult(result=False, metadata={"policy": "Mute"})


class Attached(NoopPolicy):
    def __init__(self):
        self.conversations = []

    def attach(self, conversation):
        self.conversations.append(conversation)


async def test_pol_1_arguments_are_handed_on_and_the_value_comes_back(outcomes):
    for policy in (NoopPolicy(), RetryPolicy(1, 0, 1), CompositePolicy(), CompositePolicy(NoopPolicy(), NoopPolicy())):
        fn = outcomes("value")

        result = await policy.execute(CancellationToken(), fn, "attempt", 2)

        assert (result.result, result.value, result.error) == (True, "value", None)
        assert fn.calls == [("attempt", 2)]


async def test_pol_1_failures_of_fn_come_back_as_results(outcomes):
    error = AuthenticationError("no key")

    for policy in (NoopPolicy(), RetryPolicy(3, 0, 1), CompositePolicy(), CompositePolicy(NoopPolicy(), NoopPolicy())):
        result = await policy.execute(CancellationToken(), outcomes(error))

        assert (result.result, result.value) == (False, None)
        assert result.error is error


async def test_pol_1_failures_of_a_policy_itself_come_back_as_results(outcomes):
    for policy in (CompositePolicy(Broken()), CompositePolicy(NoopPolicy(), Broken())):
        result = await policy.execute(CancellationToken(), outcomes("never"))

        assert result.result is False
        assert isinstance(result.error, ConfigurationError)

    def raises(error):
        raise ZeroDivisionError

    result = await RetryPolicy(2, 0, 1, raises).execute(CancellationToken(), outcomes(ConnectionFailedError("gone")))

    assert isinstance(result.error, ZeroDivisionError)


async def test_pol_2_the_default_policy_makes_three_attempts(outcomes, jumping):
    fn = outcomes(ConnectionFailedError("one"), ConnectionFailedError("two"), "value")

    result = await default_policy().execute(CancellationToken(), fn)

    assert result.value == "value"
    assert len(fn.calls) == 3
    assert jumping.sleeps[0] <= 1
    assert jumping.sleeps[1] <= 2
    assert result.metadata["policy"] == "CompositePolicy"
    inner = result.metadata["policies"]["RetryPolicy[0]"]
    assert (inner["max_attempts"], inner["initial_backoff_ms"], inner["backoff_factor"]) == (3, 1000, 2)


async def test_pol_3_the_record_of_noop_is_its_name(outcomes):
    assert (await NoopPolicy().execute(CancellationToken(), outcomes(1))).metadata == {"policy": "NoopPolicy"}
    assert (await NoopPolicy().execute(CancellationToken(), outcomes(KeyError("x")))).metadata == {
        "policy": "NoopPolicy"
    }


async def test_pol_3_a_subclass_records_its_own_name(outcomes):
    class Mine(NoopPolicy):
        pass

    assert (await Mine().execute(CancellationToken(), outcomes(1))).metadata == {"policy": "Mine"}


async def test_pol_12_the_record_lists_policies_from_outer_to_inner(outcomes):
    policy = CompositePolicy(RetryPolicy(2, 0, 1), NoopPolicy(), RetryPolicy(1, 0, 1))

    result = await policy.execute(CancellationToken(), outcomes("value"))

    assert result.metadata["policy"] == "CompositePolicy"
    assert result.metadata["execution_order"] == ["RetryPolicy[0]", "NoopPolicy[1]", "RetryPolicy[2]"]
    assert list(result.metadata["policies"]) == ["RetryPolicy[0]", "NoopPolicy[1]", "RetryPolicy[2]"]
    assert result.metadata["policies"]["NoopPolicy[1]"] == {"policy": "NoopPolicy"}
    assert result.metadata["policy_count"] == 3
    assert json.loads(json.dumps(result.metadata)) == result.metadata


async def test_pol_12_policies_that_failed_have_an_entry(outcomes):
    policy = CompositePolicy(NoopPolicy(), RetryPolicy(2, 0, 1))

    result = await policy.execute(CancellationToken(), outcomes(ConnectionFailedError("gone")))

    assert result.result is False
    assert result.metadata["policies"]["NoopPolicy[0]"] == {"policy": "NoopPolicy"}
    assert result.metadata["policies"]["RetryPolicy[1]"]["attempts"] == 2


async def test_pol_12_an_empty_composite_acts_as_noop(outcomes):
    result = await CompositePolicy().execute(CancellationToken(), outcomes("value"))

    assert result.value == "value"
    assert result.metadata == {
        "policy": "CompositePolicy",
        "policies": {},
        "execution_order": [],
        "policy_count": 0,
    }


async def test_pol_12_an_outer_retry_sees_the_inner_error_itself(outcomes):
    error = ConnectionFailedError("gone")
    seen = []
    outer = RetryPolicy(3, 0, 1, lambda failure: seen.append(failure) or True)
    fn = outcomes(error, "value")

    result = await CompositePolicy(outer, NoopPolicy()).execute(CancellationToken(), fn)

    assert seen == [error]
    assert seen[0] is error
    assert result.value == "value"
    assert len(fn.calls) == 2


async def test_pol_12_retries_inside_retries_multiply(outcomes):
    fn = outcomes(ConnectionFailedError("gone"))

    await CompositePolicy(RetryPolicy(2, 0, 1), RetryPolicy(3, 0, 1)).execute(CancellationToken(), fn)

    assert len(fn.calls) == 6


async def test_pol_12_the_outcome_is_the_outermost_policys(outcomes):
    result = await CompositePolicy(NoopPolicy(), Mute()).execute(CancellationToken(), outcomes("never"))

    assert result.result is False
    assert isinstance(result.error, SimulacraError)
    assert "Mute[1]" in str(result.error)


async def test_pol_12_arguments_given_by_an_outer_policy_reach_the_inside(outcomes):
    class Redirect(NoopPolicy):
        async def execute(self, cancellation_token, fn, *args):
            return await super().execute(cancellation_token, fn, "elsewhere")

    fn = outcomes("value")
    await CompositePolicy(Redirect(), NoopPolicy()).execute(CancellationToken(), fn, "here")

    assert fn.calls == [("elsewhere",)]


async def test_pol_1_attach_reaches_every_policy_inside():
    inner, conversation = Attached(), object()

    CompositePolicy(NoopPolicy(), CompositePolicy(inner)).attach(conversation)

    assert inner.conversations == [conversation]


async def test_pol_13_a_composite_starts_nothing_once_cancelled_whatever_is_inside(outcomes, source):
    class Careless(Policy):
        async def execute(self, cancellation_token, fn, *args):
            return PolicyResult(result=True, value=await fn(*args))

    fn = outcomes("value")
    source.cancel()

    with pytest.raises(OperationCancelledError):
        await CompositePolicy(Careless()).execute(source.token, fn)

    assert fn.calls == []
