"""Calls that Gemini writes as code into its text, in place of calling, read as the calls that they are."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

from simulacra.clock import clock
from simulacra.messages import AssistantContent, AssistantMessage, TextContent, ToolContent
from simulacra.schema import ToolDefinition
from simulacra.transformers import ContextTransformer, TransformContext
from simulacra_google.marks import MADE_ID, SIGNATURE

_FENCED = re.compile(r"```tool_code[ \t]*\r?\n(.*?)^[ \t]*```[ \t]*\r?$", re.MULTILINE | re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}
"""What the model writes where it mixes up Python and JSON."""
_API = "default_api"


class GoogleToolCodeContextTransformer(ContextTransformer):
    """Turns fenced blocks tagged `tool_code` into tool calls (GOO-9 to GOO-13).

    A block that holds anything but calls of offered tools with literal arguments stays in the text as it is; nothing is
    evaluated.
    """

    async def transform_completion(self, message: AssistantMessage, context: TransformContext) -> AssistantMessage:
        if not any(isinstance(block, TextContent) and "```tool_code" in block.text for block in message.content):
            return message

        offered = {tool.name: tool for tool in context.tools}
        content = [part for block in message.content for part in _blocks_of(block, offered)]

        if len(content) == len(message.content) and all(
            new is old for new, old in zip(content, message.content, strict=True)
        ):
            return message

        has_called = any(isinstance(block, ToolContent) for block in content)
        stop_reason = "tool_use" if has_called and message.stop_reason in ("end_turn", "other") else message.stop_reason

        return dataclasses.replace(message, content=tuple(content), stop_reason=stop_reason)


def _blocks_of(block: AssistantContent, offered: dict[str, ToolDefinition]) -> list[AssistantContent]:
    """The block without its calls, which follow it; a text that says nothing then is left out."""
    if not isinstance(block, TextContent):
        return [block]

    calls: list[AssistantContent] = []

    def replacement(found: re.Match[str]) -> str:
        try:
            read = _calls_in(found[1], offered)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return found[0]

        calls.extend(read)

        return "\n"

    text = _FENCED.sub(replacement, block.text)

    if not calls:
        return [block]

    says_something = bool(text.strip()) or SIGNATURE in (block.extended or {})

    return [*([dataclasses.replace(block, text=text)] if says_something else []), *calls]


def _calls_in(code: str, offered: dict[str, ToolDefinition]) -> list[ToolContent]:
    """The calls of a block of code, in order.

    Raises:
        SyntaxError: It is no Python.
        ValueError: It is more than calls of offered tools with literal arguments.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in strings that Python may refuse some day
        module = ast.parse(textwrap.dedent(code).strip())

    if not module.body:
        raise ValueError("no call")

    return [_call(statement, offered) for statement in module.body]


def _call(statement: ast.stmt, offered: dict[str, ToolDefinition]) -> ToolContent:
    called = statement.value if isinstance(statement, ast.Expr) else None

    if isinstance(called, ast.Call) and _name_of(called) == "print" and "print" not in offered:
        called = called.args[0] if len(called.args) == 1 and not called.keywords else None

    if not isinstance(called, ast.Call) or _name_of(called) not in offered:
        raise ValueError("not a call of an offered tool")

    tool = offered[_name_of(called)]
    names = list(tool.input_schema().get("properties") or ())

    if len(called.args) > len(names):
        raise ValueError("more positions than parameters")

    pairs = list(zip(names, called.args, strict=False))
    pairs += [(_keyword(argument), argument.value) for argument in called.keywords]
    params = {name: _literal(value) for name, value in pairs}

    if len(params) < len(pairs):
        raise ValueError("an argument is given twice")

    return ToolContent(tool_request_id=MADE_ID + clock().new_id(), tool=tool.name, params=params)


def _name_of(called: ast.Call) -> str:
    function = called.func

    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == _API:
        return function.attr

    return function.id if isinstance(function, ast.Name) else ""


def _keyword(argument: ast.keyword) -> str:
    if argument.arg is None:
        raise ValueError("arguments that are unpacked")

    return argument.arg


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None | bool() | int() | str() as value):
            return value
        case ast.Constant(value=float() as value) if math.isfinite(value):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float())):
            value = _literal(node.operand)
            return -value if isinstance(sign, ast.USub) else value
        case ast.Name(id=word) if word in _WORDS:
            return _WORDS[word]
        case ast.List(elts=parts):
            return _literals(parts)
        case ast.Dict(keys=keys, values=values):
            return dict(zip(map(_key, keys), _literals(values), strict=True))
        case _:
            raise ValueError("not a literal")


def _literals(nodes: Sequence[ast.expr]) -> list[Any]:
    return [_literal(node) for node in nodes]


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value

    raise ValueError("a key that is no text")
