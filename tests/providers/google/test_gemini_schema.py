"""JSON Schema in the forms that Gemini takes."""

from __future__ import annotations

import copy

import pytest
from gemini_wire import params_of
from hypothesis import given
from hypothesis import strategies as st
from simulacra_google.rules import RULES
from simulacra_google.schema import gemini_schema, output_schema, schema_fault

from simulacra.errors import ConfigurationError
from simulacra.schema import ToolDefinition
from simulacra.tools import tool

ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}
TREE = {
    "$defs": {"Node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}}}},
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
}

leaves = st.one_of(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "string", "format": "uri", "minLength": 1},
            {"type": "string", "format": "date-time"},
            {"type": ["string", "null"]},
            {"type": ["string", "number", "null"]},
            {"type": ["null"]},
            {"type": "null"},
            {"type": "array"},
            {"type": ["array", "null"]},
            {"type": "object", "additionalProperties": True},
            {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2},
            {"enum": ["a", "", None]},
            {"enum": [1, 2]},
            {"enum": [None]},
            {"const": "x"},
            {"const": 3},
            {"const": None},
            {"$ref": "#/$defs/Address"},
            {"$ref": "#/$defs/Address", "description": "home"},
            {},
            True,
        ]
    )
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda part: {"type": "array", "items": part}, inner),
        st.builds(lambda part: {"type": ["array", "null"], "items": part}, inner),
        st.builds(lambda part: {"type": "array", "prefixItems": [part]}, inner),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
        st.builds(lambda one: {"oneOf": [one, {"type": "null"}], "title": "t"}, inner),
        st.builds(lambda one, other: {"allOf": [one, other]}, inner, inner),
        st.builds(lambda one, other: {"type": "object", "properties": {"a": one, "b": other}}, inner, inner),
        st.builds(lambda part: {"type": "object", "additionalProperties": part}, inner),
    ),
    max_leaves=8,
)


def nodes(schema):
    yield schema
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]

    for part in parts:
        if part is not None:
            yield from nodes(part)


def parameters_of(definition):
    [declared] = params_of(tools=[definition])["tools"][0]["functionDeclarations"]

    return declared["parameters"]


def written(schema):
    return gemini_schema({"type": "object", "properties": {"x": schema}, "$defs": {"Address": ADDRESS}}, what="it")[
        "properties"
    ]["x"]


@given(schemas)
def test_sc_r1_whatever_goes_out_is_in_the_subset_at_every_level(schema):
    found = written(schema)

    assert [schema_fault(node) for node in nodes(found) if schema_fault(node)] == []
    assert all(node.get("type", "STRING").isupper() for node in nodes(found))
    assert not any(isinstance(node.get("type"), list) or node.get("type") == "NULL" for node in nodes(found))


@given(schemas)
def test_sc_r1_the_rules_agree_with_what_is_declared(schema):
    whole = {"type": "object", "properties": {"x": schema}, "$defs": {"Address": ADDRESS}}

    assert RULES.check(params_of(tools=[ToolDefinition(name="f", description="f", parameters=whole)])) == ()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"const": "x"}, {"type": "STRING", "enum": ["x"]}),
        ({"type": "string", "enum": ["a", "", "b"]}, {"type": "STRING", "enum": ["a", "b"]}),
        ({"type": "string", "format": "uri"}, {"type": "STRING"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"type": ["array", "null"]}, {"type": "ARRAY", "nullable": True, "items": {"type": "STRING"}}),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "INTEGER", "nullable": True}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "d"},
            {"description": "d", "anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]},
        ),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, {"type": "INTEGER", "minimum": 1}),
    ],
)
def test_sc_r2_what_the_subset_lacks_becomes_the_nearest_form(schema, expected):
    assert written(schema) == expected


@pytest.mark.parametrize(("value", "kind"), [(3, "INTEGER"), (2.5, "NUMBER"), (True, "BOOLEAN")])
def test_sc_r2_a_fixed_value_of_another_type_is_its_type_alone(value, kind):
    found = written({"const": value})

    assert found["type"] == kind
    assert "enum" not in found
    assert str(value) in found["description"]


@pytest.mark.parametrize("of", [gemini_schema, output_schema])
def test_sc_r3_a_schema_that_refers_to_itself_is_refused_by_its_path(of):
    with pytest.raises(ConfigurationError, match=r"\$\.root\.left refers back to #/\$defs/Node"):
        of(TREE, what="tool 'f'")

    with pytest.raises(ConfigurationError, match="refers back to #"):
        of({"type": "object", "properties": {"again": {"$ref": "#"}}}, what="it")


def test_sc_r3_cycles_of_any_shape_are_found():
    around = {
        "$defs": {
            "A": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]},
            "B": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/C"}]}},
            "C": {"type": "object", "additionalProperties": {"$ref": "#/$defs/A"}},
        },
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
    }

    with pytest.raises(ConfigurationError, match=r"refers back to #/\$defs/A"):
        gemini_schema(around, what="it")


@pytest.mark.parametrize("name", ["#/$defs/Nowhere", "https://example.org/schema", "#/properties/a/b/c"])
def test_sc_r3_a_reference_to_nothing_is_refused(name):
    with pytest.raises(ConfigurationError, match="which is not in it"):
        gemini_schema({"type": "object", "properties": {"a": {"$ref": name}}}, what="it")


def test_sc_r3_a_tool_with_such_a_schema_is_named():
    definition = ToolDefinition(name="plant", description="Plant.", parameters=TREE)

    with pytest.raises(ConfigurationError, match="tool 'plant'"):
        params_of(tools=[definition])


def test_sc_01_an_open_map_is_told_in_words_that_the_model_can_follow():
    @tool
    def f(meta: dict[str, str], other: int) -> str:
        """Do it."""
        return ""

    parameters = parameters_of(f.get_definition())

    assert "additionalProperties" not in str(parameters)
    assert parameters["properties"]["meta"]["type"] == "OBJECT"
    assert "keys may be chosen freely" in parameters["properties"]["meta"]["description"]
    assert parameters["properties"]["other"] == {"type": "INTEGER"}


def test_sc_04_references_are_inlined_each_time_with_what_stands_beside_them():
    schema = {
        "$defs": {"Address": ADDRESS},
        "type": "object",
        "properties": {
            "home": {"$ref": "#/$defs/Address", "description": "home"},
            "work": {"$ref": "#/$defs/Address", "description": "work"},
        },
    }
    before = copy.deepcopy(schema)
    found = gemini_schema(schema, what="it")
    inlined = {"type": "OBJECT", "properties": {"street": {"type": "STRING"}}, "required": ["street"]}

    assert found["properties"] == {
        "home": {**inlined, "description": "home"},
        "work": {**inlined, "description": "work"},
    }
    assert "$" not in str(found)
    assert schema == before


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "number", "null"]}, {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True}),
        ({"type": ["null"]}, {"type": "STRING", "nullable": True}),
    ],
)
def test_sc_09_a_union_of_types_is_any_of_them(schema, expected):
    assert written(schema) == expected


def test_an_output_keeps_what_json_schema_mode_knows():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "map": {"type": "object", "additionalProperties": {"type": "integer", "multipleOf": 2}},
            "pair": {"type": "array", "prefixItems": [{"const": 1}, {"type": ["string", "null"]}]},
            "any": {"oneOf": [{"type": "string", "pattern": "x"}, {"enum": [1, 2]}]},
        },
    }

    assert output_schema(schema, what="it") == {
        "type": "object",
        "properties": {
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "pair": {"type": "array", "prefixItems": [{"enum": [1]}, {"type": ["string", "null"]}]},
            "any": {"anyOf": [{"type": "string"}, {"enum": [1, 2]}]},
        },
    }
