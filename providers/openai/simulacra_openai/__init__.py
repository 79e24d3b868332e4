"""OpenAI and OpenAI-compatible services for Simulacra.

Importing this package imports neither the SDK nor an HTTP client; they come with the first provider.
"""

from simulacra_openai.entry import azure_plugin, cloudflare_plugin, fireworks_plugin, ollama_plugin, plugin
from simulacra_openai.gateway import (
    GatewayOptions,
    cloudflare,
    create_cloudflare_client,
    get_cloudflare_gateway_base_url,
)
from simulacra_openai.presets import (
    AZURE,
    CLOUDFLARE,
    COMPATIBLE,
    FIREWORKS,
    FIREWORKS_BASE_URL,
    OLLAMA,
    OPENAI,
    Preset,
)
from simulacra_openai.provider import OpenAIProvider
from simulacra_openai.rules import rules_for
from simulacra_openai.services import azure, create_fireworksai_client, fireworks, ollama, openai_compatible

__all__ = [
    "AZURE",
    "CLOUDFLARE",
    "COMPATIBLE",
    "FIREWORKS",
    "FIREWORKS_BASE_URL",
    "OLLAMA",
    "OPENAI",
    "GatewayOptions",
    "OpenAIProvider",
    "Preset",
    "azure",
    "azure_plugin",
    "cloudflare",
    "cloudflare_plugin",
    "create_cloudflare_client",
    "create_fireworksai_client",
    "fireworks",
    "fireworks_plugin",
    "get_cloudflare_gateway_base_url",
    "ollama",
    "ollama_plugin",
    "openai_compatible",
    "plugin",
    "rules_for",
]
