"""Tools: classes and functions that a model may call, and the runner that calls them."""

from simulacra.tools.context import ToolContext, ToolProgress
from simulacra.tools.decorator import FunctionTool, ToolOptions, tool
from simulacra.tools.describe import ToolDescription
from simulacra.tools.results import encode_result
from simulacra.tools.runner import ToolRunner
from simulacra.tools.tool import Effect, ToolClass
from simulacra.tools.toolkit import check_toolkit

__all__ = [
    "Effect",
    "FunctionTool",
    "ToolClass",
    "ToolContext",
    "ToolDescription",
    "ToolOptions",
    "ToolProgress",
    "ToolRunner",
    "check_toolkit",
    "encode_result",
    "tool",
]
