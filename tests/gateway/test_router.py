"""Which provider answers for a model id, and what a user is told when none does."""

import pytest

from corral.gateway.call import OnDelta, Price, Provider, Reply, Request
from corral.gateway.router import Gateway, ModelNotAvailable


class Echo:
    """A provider that remembers its calls."""

    def __init__(self, name: str, fails: bool = False) -> None:
        self.name, self.fails = name, fails
        self.closed = False
        self.models: list[str] = []

    async def call(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.models.append(request.model)
        return Reply(content=[], stop="end_turn", usage=None, model=request.model)

    def price(self, model: str) -> Price | None:
        return Price(1, 2, 3, 4, 5) if model == "priced" else None

    async def aclose(self) -> None:
        self.closed = True
        if self.fails:
            raise OSError("cannot close")


def _gateway(*names: str, default: str = "") -> Gateway:
    providers: dict[str, Provider] = {name: Echo(name) for name in names}
    return Gateway(providers, default)


@pytest.mark.parametrize(
    ("asked", "provider", "model"),
    [
        ("anthropic/claude-sonnet-5-5", "anthropic", "claude-sonnet-5-5"),
        ("openai/org/some:model", "openai", "org/some:model"),
        ("anthropic/tuned.gguf", "anthropic", "tuned.gguf"),
        ("local/small", "local", "small"),
        ("local//models/x.gguf", "local", "/models/x.gguf"),
        ("scripted/default", "scripted", "default"),
        ("claude-opus-5-5", "anthropic", "claude-opus-5-5"),
        ("gpt-6-sol", "openai", "gpt-6-sol"),
        ("o1", "openai", "o1"),
        ("o3-mini", "openai", "o3-mini"),
        ("o4-mini", "openai", "o4-mini"),
        ("chatgpt-4o-latest", "openai", "chatgpt-4o-latest"),
        ("/models/x", "local", "/models/x"),
        ("./x", "local", "./x"),
        ("models/x.gguf", "local", "models/x.gguf"),
        ("x.gguf", "local", "x.gguf"),
        ("", "scripted", "default"),
    ],
)
def test_ids(asked: str, provider: str, model: str) -> None:
    gateway = _gateway("anthropic", "openai", "local", "scripted", default="scripted/default")
    route = gateway.resolve(asked)
    assert (route.provider.name, route.model) == (provider, model)
    assert route.id == f"{provider}/{model}"
    assert gateway.resolve(route.id) == route


@pytest.mark.parametrize(
    ("asked", "message", "fix"),
    [
        ("", "no model is named", "the providers are scripted"),
        ("claude-opus-5-5", "anthropic of the model 'claude-opus-5-5' is not configured", "ANTHROPIC_API_KEY"),
        ("openai/gpt-6-sol", "is not configured", "OPENAI_API_KEY"),
        ("./x.gguf", "is not configured", "corral[local]"),
        ("groq/llama", "'groq/llama' names an unknown provider", "the providers are scripted"),
        ("llama", "no provider is known for the model 'llama'", "provider/model"),
        ("scripted/", "names no model", "provider/model"),
        ("scripted/a\x00b", "names no model", "provider/model"),
        ("\x1b[31m", "no provider is known", "provider/model"),
    ],
)
def test_what_cannot_be_resolved_says_what_to_do(asked: str, message: str, fix: str) -> None:
    with pytest.raises(ModelNotAvailable, match=message) as caught:
        _gateway("scripted").resolve(asked)
    assert caught.value.message == str(caught.value)
    assert caught.value.message.isprintable()
    assert fix in caught.value.fix


def test_a_server_without_providers_says_so() -> None:
    with pytest.raises(ModelNotAvailable) as caught:
        Gateway({}, "").resolve("x")
    assert caught.value.fix == "Configure a provider where the server starts."


def test_a_route_has_the_price() -> None:
    gateway = _gateway("openai")
    assert gateway.resolve("openai/priced").price == Price(1, 2, 3, 4, 5)
    assert gateway.resolve("openai/other").price is None


async def test_a_call_goes_to_the_provider_with_its_own_id() -> None:
    echo = Echo("openai")
    gateway = Gateway({"openai": echo}, "")
    request = Request("openai/gpt-6-sol", "", [], [], 10)
    assert (await gateway.call(gateway.resolve(request.model), request)).model == "gpt-6-sol"
    assert echo.models == ["gpt-6-sol"]


async def test_all_providers_are_closed_when_one_fails() -> None:
    echoes = [Echo("a"), Echo("b", fails=True), Echo("c")]
    with pytest.raises(OSError, match="cannot close"):
        await Gateway({echo.name: echo for echo in echoes}, "").aclose()
    assert all(echo.closed for echo in echoes)
