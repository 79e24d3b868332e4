"""OpenAI and OpenAI-compatible services for Simulacra.

Importing this package imports neither the SDK nor an HTTP client; they come with the first provider.
"""

from simulacra_openai.entry import plugin
from simulacra_openai.presets import COMPATIBLE, OPENAI, Preset, openai_compatible
from simulacra_openai.provider import OpenAIProvider

__all__ = ["COMPATIBLE", "OPENAI", "OpenAIProvider", "Preset", "openai_compatible", "plugin"]
