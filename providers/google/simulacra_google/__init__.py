"""Gemini for Simulacra, by the Developer API and by Vertex.

Importing this package imports neither the SDK nor an HTTP client; they come with the first provider.
"""

from simulacra_google.entry import plugin
from simulacra_google.provider import GoogleProvider
from simulacra_google.tool_code import GoogleToolCodeContextTransformer

__all__ = ["GoogleProvider", "GoogleToolCodeContextTransformer", "plugin"]
