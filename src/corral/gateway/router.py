"""Which provider answers for a model id, and the one way to call it."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace

import anyio

from corral.base.ids import digest
from corral.base.text import printable

from .call import OnDelta, Overloaded, Price, Provider, Reply, Request
from .gate import Gate

_BARE = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"(gpt-|chatgpt-|o[134])"), "openai"),
)
FAMILIES = {
    "haiku": "claude-haiku-5-5",
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "fable": "claude-fable-5-2",
}
"""The families of managed models, from the simplest to the most able, and the model of each."""

_REMEDIES = {
    "anthropic": "Set ANTHROPIC_API_KEY where the server starts",
    "openai": "Set OPENAI_API_KEY where the server starts",
    "local": "Install the extra corral[local] where the server runs",
    "scripted": "Start the server with the scripted provider",
}


def nearest(families: Sequence[str], family: str) -> str:
    """Of the allowed families the one that is most like the wanted one; of two, the simpler."""
    rank = list(FAMILIES)
    return min(families, key=lambda name: (abs(rank.index(name) - rank.index(family)), rank.index(name)))


class ModelNotAvailable(LookupError):
    """No provider here answers for this model id; `fix` says what the caller or the operator can do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


@dataclass(frozen=True)
class Route:
    """Where calls of one model go."""

    provider: Provider
    model: str
    """The id as the provider writes it."""
    id: str
    """The full id, `provider/model`; resolves to the same route."""
    price: Price | None
    """None: not known."""


class Gateway:
    """The configured providers, each under its own name and behind its own gate."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        default: str,
        own: Mapping[str, Callable[[str], Provider]] | None = None,
    ) -> None:
        """`default` is the model id that an empty one stands for; it may be empty itself. `own` makes a provider of a
        user's key, for each name of a provider that users may bring keys for."""
        self._providers = dict(providers)
        self._gates = {id(provider): Gate() for provider in providers.values()}
        self._default = default
        self._own_makers = dict(own or {})
        self._own: dict[tuple[str, str], Provider] = {}

    def resolve(self, model: str) -> Route:
        """The route of a model id.

        Ids are `provider/model`; `claude-...`, `gpt-...` and `o3...` are found without a provider, and a path (with `/`
        or `./` at its start, or `.gguf` at its end) is a local model file. Raises ModelNotAvailable.
        """
        chosen = model or self._default
        if not chosen:
            raise ModelNotAvailable("no model is named, and the server has no default model", self._choices())
        name, rest = self._split(chosen)
        provider = self._providers.get(name)
        if provider is None:
            raise self._missing(chosen, name)
        if not rest or not rest.isprintable() or len(rest) > 1024:
            raise ModelNotAvailable(f"the model id {_shown(chosen)} names no model", "Write provider/model.")
        return Route(provider, rest, f"{name}/{rest}", provider.price(rest))

    def own_route(self, protocol: str, model: str) -> str:
        """The full id of a model that is called with a user's key. Raises ModelNotAvailable."""
        name = protocol.lower()
        if name not in self._own_makers:
            raise ModelNotAvailable(f"keys for {protocol} cannot be brought here", self._choices())
        rest = model.removeprefix(f"{name}/")
        if not rest.isprintable() or len(rest) > 1024:
            raise ModelNotAvailable(f"the model id {_shown(model)} names no model", "Write the id as its service does.")
        return f"{name}/{rest}"

    def own(self, model: str, key: str) -> Route:
        """The route of a full model id on a user's key. Calls on one key share a gate. Raises ModelNotAvailable."""
        name, _, rest = model.partition("/")
        provider = self._own.get((name, digest(key.encode())))
        if provider is None:
            try:
                provider = self._own_makers[name](key)
            except (KeyError, ValueError) as error:
                raise ModelNotAvailable(f"the key for {name} cannot be used: {error}", "Correct the Secret.") from error
            self._own[name, digest(key.encode())] = provider
            self._gates[id(provider)] = Gate()
        return Route(provider, rest, model, provider.price(rest))

    def within(self, route: Route, families: Sequence[str]) -> Route:
        """The route, or one to the nearest of the allowed families if it is of another. Raises ModelNotAvailable."""
        family = next((name for name in FAMILIES if name in route.model), None)
        if family is None or family in families:
            return route
        return self.resolve(f"{route.provider.name}/{FAMILIES[nearest(families, family)]}")

    def slot(self, route: Route) -> AbstractAsyncContextManager[None]:
        """`async with gateway.slot(route):` waits until the provider may be called, and holds a place for one call.

        Take it before a call is recorded as started: nothing is sent while one waits. Raises Overloaded when the
        service asked for a pause longer than `retry.LONGEST_WAIT`.
        """
        return self._gates[id(route.provider)].slot()

    async def call(self, route: Route, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """Send the request once to the route's provider, with the model as it writes it. Raises a CallError."""
        gate, started = self._gates[id(route.provider)], anyio.current_time()
        try:
            reply = await route.provider.call(replace(request, model=route.model), on_delta)
        except Overloaded as error:
            gate.refused(started, error.retry_after)
            raise
        gate.succeeded()
        return reply

    async def aclose(self) -> None:
        """Close all providers, also when closing one of them fails."""
        async with AsyncExitStack() as stack:
            for provider in (*self._providers.values(), *self._own.values()):
                stack.push_async_callback(provider.aclose)

    def _split(self, model: str) -> tuple[str, str]:
        """The provider's name, empty when it cannot be told, and its own id of the model."""
        name, slash, rest = model.partition("/")
        if slash and (name in self._providers or name in _REMEDIES):
            return name, rest
        if model.startswith(("/", "./")) or model.endswith(".gguf"):
            return "local", model
        if slash:
            return name, rest
        return next((provider for pattern, provider in _BARE if pattern.match(model)), ""), model

    def _missing(self, model: str, name: str) -> ModelNotAvailable:
        if name in _REMEDIES:
            message = f"the provider {name} of the model {_shown(model)} is not configured"
            return ModelNotAvailable(message, f"{_REMEDIES[name]}. {self._choices()}")
        if name:
            return ModelNotAvailable(f"{_shown(model)} names an unknown provider", self._choices())
        return ModelNotAvailable(f"no provider is known for the model {_shown(model)}", self._choices())

    def _choices(self) -> str:
        if not self._providers:
            return "Configure a provider where the server starts."
        return "Name a model as provider/model; the providers are " + ", ".join(sorted(self._providers)) + "."


def _shown(model: str) -> str:
    return repr(printable(model[:200]))
