"""Putting the JSON Schemas of tools and output right; a request that keeps the rules comes back as it is."""

from __future__ import annotations

import json
from typing import Any

from simulacra.rules import Wire
from simulacra.rules.reading import JsonMap, map_of, objects_in, text_of
from simulacra_anthropic.schema_rules import (
    CHOICES,
    is_map,
    is_object,
    is_unknown_keyword,
    output_schema,
    target_of,
)


def mend_schemas(wire: Wire) -> Wire:
    """The request with its schemas put right; the same object when there was nothing to do."""
    if any(_chooses(tool) for _, tool in objects_in(wire.get("tools"))):
        tools = [_flat_tool(tool) if _chooses(map_of(tool)) else tool for tool in wire["tools"]]
        wire = {**wire, "tools": tools}

    schema = output_schema(wire)

    if schema is None or (fitting := _fitting(schema)) == schema:
        return wire

    config = wire["output_config"]

    return {**wire, "output_config": {**config, "format": {**config["format"], "schema": fitting}}}


def _chooses(tool: JsonMap) -> bool:
    schema = tool.get("input_schema")

    return isinstance(schema, dict) and any(key in schema for key in CHOICES) and tool.get("type") in (None, "custom")


def _flat_tool(tool: JsonMap) -> JsonMap:
    """A tool whose arguments are one object's: all of `allOf`, and what may be there of `anyOf` and `oneOf` (SC-R2)."""
    schema = tool["input_schema"]
    properties, required = dict(map_of(schema.get("properties"))), _names(schema.get("required"))

    for key in CHOICES:
        for branch in schema.get(key) if isinstance(schema.get(key), list) else ():
            part = map_of(target_of(schema, branch["$ref"]) if "$ref" in map_of(branch) else branch)
            properties = {**map_of(part.get("properties")), **properties}
            required += _names(part.get("required")) if key == "allOf" else []

    kept = {key: value for key, value in schema.items() if key not in (*CHOICES, "properties", "required")}
    named = {"required": list(dict.fromkeys(required))} if required else {}
    flat = {**kept, "type": "object", **({"properties": properties} if properties else {}), **named}

    return {**tool, "input_schema": flat}


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _fitting(schema: Any) -> Any:
    """An output schema as the API takes it: objects closed, and what replies cannot be held to said in words."""
    if isinstance(schema, list):
        return [_fitting(part) for part in schema]

    if not isinstance(schema, dict):
        return schema

    unknown = {key: value for key, value in schema.items() if is_unknown_keyword(schema, key)}
    fitting = {key: value for key, value in schema.items() if key not in unknown}

    for key in ("properties", "$defs", "definitions"):
        if isinstance(fitting.get(key), dict):
            fitting[key] = {name: _fitting(part) for name, part in fitting[key].items()}

    for key in ("items", *CHOICES):
        if key in fitting:
            fitting[key] = _fitting(fitting[key])

    if "oneOf" in fitting:
        branches = (fitting.get("anyOf"), fitting.pop("oneOf"))
        fitting["anyOf"] = [part for given in branches if isinstance(given, list) for part in given]

    if unknown:
        said = ", ".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in unknown.items())
        fitting["description"] = f"{text_of(schema.get('description'))}\n\n({said})".strip()

    return {**fitting, "additionalProperties": False} if is_object(schema) and not is_map(schema) else fitting
