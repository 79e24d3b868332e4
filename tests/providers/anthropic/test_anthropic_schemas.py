"""Schemas of tools and output: what the API takes, what is rewritten for it, and what only the user can change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages_wire import params_of, user
from pydantic import BaseModel, Field
from simulacra_anthropic.rules import RULES
from simulacra_anthropic.schema_mending import mend_schemas

from simulacra.errors import ConfigurationError
from simulacra.provider import OutputRequest


class Address(BaseModel):
    street: str = Field(min_length=1, description="Where to.")
    number: int = Field(ge=1, lt=1000)


class Order(BaseModel):
    to: Address
    bill_to: Address | None = None
    tags: list[str] = Field(max_length=3)


def wire(schema: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "q"}],
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }


def sent(schema: Any) -> Any:
    return params_of(user("q"), output=OutputRequest(schema=schema))["output_config"]["format"]["schema"]


def mended(schema: Any) -> Any:
    return mend_schemas(wire(schema))["output_config"]["format"]["schema"]


def with_tool(schema: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": [], "tools": [{"name": "f", "input_schema": schema, **fields}]}


def test_sc_r2_bounds_become_words_of_the_description() -> None:
    schema = Order.model_json_schema()
    before = Order.model_json_schema()
    fitting = sent(schema)
    address = fitting["$defs"]["Address"]

    assert address["properties"]["street"]["description"] == "Where to.\n\n(minLength: 1)"
    assert address["properties"]["number"]["description"] == "(exclusiveMaximum: 1000, minimum: 1)"
    assert fitting["properties"]["tags"]["description"] == "(maxItems: 3)"
    assert address["additionalProperties"] is fitting["additionalProperties"] is False
    assert schema == before


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"oneOf": [{"type": "null"}]}, {"anyOf": [{"type": "null"}]}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "color"}, {"type": "string", "description": '(format: "color")'}),
        ({"type": "array", "minItems": 1}, {"type": "array", "minItems": 1}),
        ({"type": "array", "minItems": 2}, {"type": "array", "description": "(minItems: 2)"}),
        ({"enum": [1, None, "a"]}, {"enum": [1, None, "a"]}),
        ({"enum": [{"a": 1}]}, {"description": '(enum: [{"a": 1}])'}),
        (
            {"type": ["object", "null"], "properties": {"minimum": {"type": "number"}}},
            {
                "type": ["object", "null"],
                "properties": {"minimum": {"type": "number"}},
                "additionalProperties": False,
            },
        ),
    ],
)
def test_sc_r2_what_the_api_cannot_hold_a_reply_to_is_rewritten(schema: Any, expected: Any) -> None:
    assert mended(schema) == expected
    assert RULES.check(wire(expected)) == ()


def test_sc_01_an_open_map_is_refused_by_its_place() -> None:
    class Counts(BaseModel):
        words: dict[str, int]

    with pytest.raises(ConfigurationError, match=r"anthropic .*schema\.properties\.words.*list of keys"):
        sent(Counts.model_json_schema())

    with pytest.raises(ConfigurationError, match="names its properties"):
        sent({"type": "object", "additionalProperties": True})

    assert sent({"type": "object", "properties": {"a": {}}, "additionalProperties": True})["properties"] == {"a": {}}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"$ref": "#"}, r"schema\.\$ref"),
        (
            {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"items": {"$ref": "#/$defs/A"}}}},
            r"schema\.\$defs\.B\.items\.\$ref",
        ),
        ({"$ref": "https://example.org/a.json"}, "leads nowhere"),
        ({"$ref": "#/$defs/None"}, "leads nowhere"),
        ({"$ref": 3}, "leads nowhere"),
    ],
)
def test_sc_r3_references_that_do_not_end_are_refused(schema: Any, place: str) -> None:
    with pytest.raises(ConfigurationError, match=place):
        sent(schema)


def test_sc_r3_using_one_definition_several_times_is_no_cycle() -> None:
    kept = {
        "$defs": {"a/b": {"type": "string"}, "C": {"items": {"$ref": "#/$defs/a~1b"}}},
        "anyOf": [{"$ref": "#/$defs/C"}, {"$ref": "#/$defs/C"}, {"$ref": "#/anyOf/0"}],
    }

    assert sent(kept) == kept


def test_a_choice_among_arguments_becomes_arguments_that_may_be_given() -> None:
    one = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"]}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number"}},
        "anyOf": [one, {"$ref": "#/$defs/C"}, "no schema"],
        "allOf": [{"required": ["a"]}],
        "$defs": {"C": {"properties": {"c": {"type": "null"}}}},
    }
    [tool] = mend_schemas(with_tool(schema))["tools"]

    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "integer"}, "c": {"type": "null"}},
        "required": ["a"],
        "$defs": {"C": {"properties": {"c": {"type": "null"}}}},
    }


def test_tools_of_the_service_and_fitting_ones_stay_the_same_object() -> None:
    for request in (
        with_tool({"anyOf": []}, type="bash_20250124"),
        with_tool({"type": "object", "properties": {"a": {"anyOf": [{}]}}}),
        {"tools": [None, 3]},
    ):
        assert mend_schemas(request) is request


anything = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["object", "string", "#", "#/a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "anyOf",
                    "oneOf",
                    "allOf",
                    "$ref",
                    "$defs",
                    "enum",
                    "minItems",
                    "format",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(anything)
def test_no_schema_makes_a_rule_fail_and_mending_comes_to_rest(schema: Any) -> None:
    for request in (wire(schema), with_tool(schema)):
        RULES.check(request)
        once = mend_schemas(request)
        assert mend_schemas(once) is once
        repairable = {"output-objects-are-closed", "output-keywords-fit", "input-schemas-choose-inside"}
        assert not repairable & {violation.rule for violation in RULES.check(once)}
