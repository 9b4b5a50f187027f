"""OpenAI's own API, or a server that speaks its Chat Completions."""

from corral.gateway import http, prices
from corral.gateway.call import OnDelta, Price, Provider, ProviderSettings, Reply, Request
from corral.gateway.dialects import openai_chat as dialect

BASE_URL = "https://api.openai.com"


class OpenAI:
    """Calls `POST /v1/chat/completions`."""

    name = "openai"

    def __init__(self, settings: ProviderSettings) -> None:
        """Raises ValueError when the key or the base URL cannot be right."""
        if not (settings.api_key or settings.base_url):
            raise ValueError("the provider openai needs an API key; set OPENAI_API_KEY, or the base URL of a server")
        key = http.checked_key(settings.api_key, "the API key of openai")
        url = http.base_address(settings.base_url, BASE_URL) + dialect.PATH
        self._endpoint = http.Endpoint(url, dialect.headers(key), api_key=key, read_timeout=settings.read_timeout)

    async def call(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """Send the request once. Raises a CallError."""
        return await self._endpoint.post(dialect.encode(request), dialect.decode, on_delta)

    def price(self, model: str) -> Price | None:
        """The listed price of the model."""
        return prices.find(self.name, model)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()


def create_provider(settings: ProviderSettings) -> Provider:
    """The provider `openai`."""
    return OpenAI(settings)
