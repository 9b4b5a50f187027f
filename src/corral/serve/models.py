"""Which model providers a server has, and which model answers for agents that name none."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from corral.base import plugins
from corral.gateway import providers
from corral.gateway.call import CallError, Provider, ProviderSettings
from corral.gateway.providers.local import LocalProvider
from corral.gateway.router import Gateway, ModelNotAvailable

from .settings import CannotStart, Settings

# The provider's key, where its service is, and the model that a key alone chooses.
_KEYED = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "claude-sonnet-5-5"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "gpt-6-sol"),
}
_LOCAL_NOTE = "a small model on this machine: check its steps"


def _settings(name: str, home: Path, environ: Mapping[str, str]) -> ProviderSettings | None:
    if name not in _KEYED:
        return ProviderSettings(home=str(home))
    key, base_url, _ = _KEYED[name]
    if not environ.get(key):
        return None
    return ProviderSettings(api_key=environ[key], base_url=environ.get(base_url, ""), home=str(home))


def open_gateway(settings: Settings, environ: Mapping[str, str] = os.environ) -> tuple[Gateway, list[str]]:
    """The configured providers, and a line that says which model is the default and why. Raises CannotStart."""
    opened: dict[str, Provider] = {}
    for name in plugins.names(providers):
        chosen = _settings(name, settings.home, environ)
        if chosen is not None:
            opened[name] = plugins.load(providers, name).create_provider(chosen)
    default, why = _default(settings, environ)
    gateway = Gateway(opened, default, {name: partial(_with_key, name, settings.home, environ) for name in _KEYED})
    try:
        route = gateway.resolve("")
    except ModelNotAvailable as error:
        raise CannotStart(error.message, error.fix) from error
    note = f"{why}; {_LOCAL_NOTE}" if route.provider.name == "local" else why
    return gateway, [f"model    {route.id} ({note})"]


def _with_key(name: str, home: Path, environ: Mapping[str, str], key: str) -> Provider:
    """A provider on a user's key, at the same address as the operator's."""
    chosen = ProviderSettings(api_key=key, base_url=environ.get(_KEYED[name][1], ""), home=str(home))
    opened: Provider = plugins.load(providers, name).create_provider(chosen)
    return opened


def _default(settings: Settings, environ: Mapping[str, str]) -> tuple[str, str]:
    if settings.model:
        return settings.model, "as asked for"
    if environ.get("CORRAL_MODEL"):
        return environ["CORRAL_MODEL"], "CORRAL_MODEL is set"
    for name, (key, _, model) in _KEYED.items():
        if environ.get(key):
            return f"{name}/{model}", f"{key} is set"
    return "local/default", "no key is configured"


async def prepare(gateway: Gateway, settings: Settings) -> list[str]:
    """Fetch and load the default model if it is local, so that the first run does not wait.

    A server that stays up starts without it and says so; one for a single command raises CannotStart.
    """
    route = gateway.resolve("")
    if not isinstance(route.provider, LocalProvider):
        return []
    try:
        await route.provider.prepare(route.model, settings.on_progress)
    except CallError as error:
        if settings.only_own_runs:
            raise CannotStart(f"the local model cannot be used: {error}", _other_models()) from error
        return [f"warning  the local model cannot be used yet: {error}. {_other_models()}"]
    return []


def _other_models() -> str:
    keys = " or ".join(key for key, _, _ in _KEYED.values())
    return f"Or set {keys} for a model with a key, or name a GGUF file with --model."
