from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from simulacra.errors import ConfigurationError
from simulacra.schema import (
    SchemaValidator,
    ToolDefinition,
    ToolParameter,
    accepts,
    json_kind,
    model_schema,
    parameter_schema,
    pointer,
    resolve,
)

CITY = ToolParameter(name="city", type="string", description="Where.", required=True)


def test_tool_2_a_definition_is_parallelizable_unless_it_says_otherwise():
    definition = ToolDefinition(name="f", description="d", parameters=[CITY])
    assert (definition.name, definition.description, definition.parameters, definition.parallelizable) == (
        "f",
        "d",
        (CITY,),
        True,
    )


def test_tool_3_every_field_of_a_parameter_is_written():
    parameter = ToolParameter(
        type="object",
        description="A place.",
        properties=[
            CITY,
            ToolParameter(name="zoom", type="integer", default=3),
            ToolParameter(name="mode", type="string", enum=["map", "photo"]),
            ToolParameter(name="tags", type="array", items=ToolParameter(type="string", description="A tag.")),
        ],
    )
    assert parameter_schema(parameter) == {
        "type": "object",
        "description": "A place.",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "zoom": {"type": "integer", "default": 3},
            "mode": {"type": "string", "enum": ["map", "photo"]},
            "tags": {"type": "array", "items": {"type": "string", "description": "A tag."}},
        },
        "required": ["city"],
    }


def test_tool_3_a_parameter_is_optional_unless_it_says_otherwise():
    assert (
        "required"
        not in ToolDefinition(
            name="f", description="", parameters=[ToolParameter(name="a", type="string")]
        ).input_schema()
    )


def test_tool_3_a_json_schema_is_kept_unchanged():
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"const": 1}}, "x-mine": []}
    assert ToolDefinition(name="f", description="", parameters=schema).input_schema() == schema


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": "str"}, "type 'str' is none of"),
        ({"type": "string", "required": True, "default": "x"}, "takes no default"),
        ({"type": "array", "default": []}, "is no array"),
        ({"type": "object", "default": {}}, "is no object"),
        ({"type": "integer", "default": "3"}, "is no integer"),
        ({"type": "integer", "default": True}, "is no integer"),
        ({"type": "integer", "enum": ["1"]}, "enum lists strings"),
        ({"type": "string", "enum": [1]}, "enum lists strings"),
        ({"type": "string", "properties": []}, "properties belong to type 'object'"),
        ({"type": "string", "items": CITY}, "items belong to type 'array'"),
    ],
)
def test_tool_3_fields_that_do_not_fit_each_other_are_refused(fields, reason):
    with pytest.raises(ConfigurationError, match=reason) as caught:
        ToolParameter(name="p", **fields)

    assert "'p'" in str(caught.value)


def test_tool_3_an_integer_is_a_right_default_of_a_number():
    assert parameter_schema(ToolParameter(type="number", default=1)) == {"type": "number", "default": 1}


def test_tool_10_a_default_is_shown_to_the_model():
    definition = ToolDefinition(
        name="f", description="", parameters=[ToolParameter(name="n", type="integer", default=0)]
    )
    assert definition.input_schema()["properties"]["n"]["default"] == 0


def test_tls_21_no_parameters_make_an_empty_closed_form():
    empty = {"type": "object", "properties": {}, "required": []}
    assert ToolDefinition(name="f", description="").input_schema() == empty
    assert model_schema(create_model("nothing")) == empty


def test_cc_r2_a_definition_takes_its_parameters_as_values():
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    parameters = [CITY]
    by_schema = ToolDefinition(name="f", description="", parameters=schema)
    by_list = ToolDefinition(name="g", description="", parameters=parameters)
    schema["properties"]["x"]["type"] = "integer"
    parameters.clear()
    assert by_schema.input_schema()["properties"]["x"] == {"type": "string"}
    assert list(by_list.input_schema()["properties"]) == ["city"]


def test_a_strict_schema_closes_what_is_made_of_parameters_and_nothing_else():
    nested = ToolParameter(name="o", type="object", properties=[CITY])
    free = ToolParameter(name="map", type="object")
    strict = ToolDefinition(name="f", description="", parameters=[nested, free]).strict_schema()
    assert strict["additionalProperties"] is False
    assert strict["properties"]["o"]["additionalProperties"] is False
    assert strict["properties"]["map"] == {"type": "object"}
    given_by_hand = {"type": "object", "properties": {}}
    assert ToolDefinition(name="f", description="", parameters=given_by_hand).strict_schema() == given_by_hand


class Inner(BaseModel):
    """Told to the model."""

    size: float = float("inf")
    label: Annotated[str, Field(title="Kept")] = "x"


def test_a_model_schema_has_no_made_up_titles_and_only_json_defaults():
    anything = object()
    model = create_model("outer", inner=(Inner, ...), other=(Any, anything), n=(int, 3))
    schema = model_schema(model)
    json.dumps(schema, allow_nan=False)
    assert schema["properties"] == {
        "inner": {"$ref": "#/$defs/Inner"},
        "other": {},
        "n": {"type": "integer", "default": 3},
    }
    assert "title" not in schema
    assert schema["$defs"]["Inner"]["properties"] == {
        "size": {"type": "number"},
        "label": {"type": "string", "title": "Kept", "default": "x"},
    }


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({}, {"null", "boolean", "integer", "number", "string", "array", "object"}),
        ({"type": "number"}, {"integer", "number"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"const": 1}, {"integer"}),
        ({"enum": ["a", None]}, {"string", "null"}),
        ({"anyOf": [{"type": "array"}, {"$ref": "#/$defs/name"}]}, {"array", "string"}),
        ({"oneOf": [{"type": "object"}, {"type": "null"}]}, {"object", "null"}),
        ({"allOf": [{"type": ["string", "null"]}, {"type": ["string", "object"]}]}, {"string"}),
        ({"$ref": "#/$defs/name"}, {"string"}),
        ({"$ref": "#/$defs/a~1b~0c"}, {"boolean"}),
        ({"$ref": "#/$defs/never"}, set()),
        ({"$ref": "https://example.invalid/x"}, {"null", "boolean", "integer", "number", "string", "array", "object"}),
        ({"$ref": "#/$defs/missing"}, {"null", "boolean", "integer", "number", "string", "array", "object"}),
    ],
)
def test_what_a_schema_accepts_is_read_off_it(schema, kinds):
    root = {"$defs": {"name": {"type": "string"}, "a/b~c": {"type": "boolean"}, "never": False}}
    all_kinds = ("null", "boolean", "integer", "number", "string", "array", "object")
    assert {kind for kind in all_kinds if accepts(schema, kind, root)} == kinds


def test_reading_a_schema_ends_on_every_circle():
    root: dict[str, Any] = {
        "$defs": {
            "self": {"$ref": "#/$defs/self"},
            "both": {"allOf": [{"$ref": "#/$defs/both"}, {"$ref": "#/$defs/both"}, {"$ref": "#/$defs/other"}]},
            "other": {"anyOf": [{"$ref": "#/$defs/both"}, {"$ref": "#/$defs/other"}, {"type": "null"}]},
        }
    }
    assert resolve({"$ref": "#/$defs/self"}, root) == {}
    assert accepts({"$ref": "#/$defs/both"}, "null", root)


def test_reading_a_deep_lattice_takes_no_exponential_time():
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 3} for n in range(60)}
    assert accepts({"$ref": "#/$defs/l0"}, "string", {"$defs": {**levels, "l60": {"type": "string"}}})


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.none()), st.just({})))
def test_the_kind_of_a_value_is_one_its_own_schema_names(value):
    names = {
        "NoneType": "null",
        "bool": "boolean",
        "int": "integer",
        "float": "number",
        "str": "string",
        "list": "array",
    }
    assert json_kind(value) == names.get(type(value).__name__, "object")


def test_what_is_no_json_value_has_no_kind():
    assert json_kind(object()) is None


def test_a_pointer_escapes_its_parts():
    assert pointer(["a/b", 0, "c~d"]) == "/a~1b/0/c~0d"
    assert pointer([]) == ""


def test_w_tool_7_a_validator_names_every_fault_and_its_place():
    validator = SchemaValidator(
        {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 3},
                "mail": {"type": "string", "format": "email"},
                "code": {"type": "string", "pattern": "^[A-Z]+$"},
                "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
                "one": {"const": 1},
                "q": {},
            },
            "required": ["q"],
            "additionalProperties": False,
            "$defs": {"item": {"type": "object", "required": ["id"]}},
        }
    )
    faults = validator.faults({"n": 1, "mail": "x", "code": "a", "list": [{}, 3], "one": 2, "a/b": 0, "c": 0})
    assert {fault.path for fault in faults} == {
        "/q",
        "/n",
        "/mail",
        "/code",
        "/list/0/id",
        "/list/1",
        "/one",
        "/a~1b",
        "/c",
    }
    assert "there is no such parameter" in {fault.reason for fault in faults}
    assert validator.faults({"q": 0, "list": [{"id": 1}]}) == []


def test_tls_21_a_schema_given_by_hand_is_checked_against_its_meta_schema():
    with pytest.raises(ConfigurationError, match="no valid JSON Schema .*/properties/a/type"):
        SchemaValidator({"type": "object", "properties": {"a": {"type": "wrong"}}})


def test_tls_21_a_reference_that_leads_out_is_refused_and_never_fetched():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        for reference in (f"http://127.0.0.1:{port}/schema.json", "file:///etc/hostname", "other.json"):
            with pytest.raises(ConfigurationError, match="no valid JSON Schema"):
                SchemaValidator({"type": "object", "properties": {"a": {"$ref": reference}}})

        server.setblocking(False)

        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_pattern_that_backtracks_costs_no_time():
    validator = SchemaValidator({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
    assert validator.faults({"a": "a" * 50_000 + "!"})


def test_the_validator_library_is_loaded_on_first_use_only():
    code = "import sys, simulacra.tools; print([name for name in ('jsonschema_rs', 'griffe') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
