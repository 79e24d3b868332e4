from __future__ import annotations

import copy

import pytest
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel
from simulacra_openai.strict import NotStrictError, strict_schema


def objects_of(schema):
    """Every object schema in a schema."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema

        for value in schema.values():
            yield from objects_of(value)

    if isinstance(schema, list):
        for value in schema:
            yield from objects_of(value)


def test_sc_06_every_object_is_closed_and_every_property_required():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "object", "properties": {"c": {"type": "string", "default": "x"}}},
            "l": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "number"}}}},
            "u": {"anyOf": [{"type": "object", "properties": {"e": {"type": "boolean"}}}, {"type": "string"}]},
        },
        "required": ["a", "b"],
    }
    before = copy.deepcopy(schema)
    strict = strict_schema(schema)

    assert schema == before
    assert len(list(objects_of(strict))) == 4

    for each in objects_of(strict):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])

    assert strict["properties"]["b"]["properties"]["c"] == {
        "type": ["string", "null"],
        "description": "(default: x)",
    }
    assert strict["properties"]["l"]["type"] == ["array", "null"]
    assert strict["properties"]["u"]["anyOf"][-1] == {"type": "null"}


@pytest.mark.parametrize(
    ("optional", "strict"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"const": "a"}, {"enum": ["a", None]}),
        ({"$ref": "#/$defs/x"}, {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}),
        (
            {"$ref": "#/$defs/x", "description": "d"},
            {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}], "description": "d"},
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ],
)
def test_w_oai_4_what_is_optional_may_be_null(optional, strict):
    schema = {"properties": {"p": optional}, "$defs": {"x": {"type": "string"}}}

    assert strict_schema(schema)["properties"]["p"] == strict


@pytest.mark.parametrize(
    ("default", "description"),
    [("x", "d (default: x)"), (3, "d (default: 3)"), (True, "d (default: true)"), (None, "d"), ([1], "d")],
)
def test_oai_3_a_primitive_default_is_told_in_the_description(default, description):
    schema = {"properties": {"p": {"type": "string", "description": "d", "default": default}}}
    sent = strict_schema(schema)["properties"]["p"]

    assert sent["description"] == description
    assert "default" not in sent


@pytest.mark.parametrize(
    "part",
    [
        {},
        True,
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "array"},
        {"type": "array", "prefixItems": []},
        {"type": "string", "minLength": 1},
        {"type": "string", "format": "uri"},
        {"oneOf": [{"type": "string"}]},
        {"$ref": "https://example.com/schema"},
    ],
)
def test_sc_r4_what_strict_mode_cannot_express_is_refused_by_path(part):
    with pytest.raises(NotStrictError, match="at #/properties/p"):
        strict_schema({"properties": {"p": part}})


def test_w_oai_4_a_free_form_object_is_refused_at_the_root():
    with pytest.raises(NotStrictError, match="at #"):
        strict_schema({"type": "object"})

    with pytest.raises(NotStrictError, match="must be an object"):
        strict_schema({"type": "string"})


def test_oai_3_the_sdks_own_transformer_agrees_on_required_schemas():
    class Inner(BaseModel):
        n: int

    class Outer(BaseModel):
        inner: Inner
        others: list[Inner]
        word: str | None

    assert strict_schema(Outer.model_json_schema()) == to_strict_json_schema(Outer)
