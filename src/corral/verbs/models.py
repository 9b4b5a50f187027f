"""Admission of a model: which one answers, at what price, or on whose key. Pinned when a run is created."""

from sqlalchemy.ext.asyncio import AsyncConnection

from corral.agents.job import OwnKey, PinnedModel, PinnedSecret
from corral.gateway.call import FREE
from corral.gateway.router import FAMILIES, ModelNotAvailable, Route, nearest
from corral.kinds import Cause, Problem, Reason
from corral.kinds.agent import Model
from corral.store import objects

from .services import Caller, Services

_USUAL_FIELD = {"Anthropic": "ANTHROPIC_API_KEY", "OpenAI": "OPENAI_API_KEY"}


async def pin(
    services: Services, caller: Caller, conn: AsyncConnection, namespace: str, wanted: Model, field: str
) -> PinnedModel:
    """The model that answers a run. `field` is where `wanted` stands, for refusals. Raises Problem."""
    try:
        if wanted.access == "BYOK":
            return await _own(services, conn, namespace, wanted, field)
        route = _from_families(services, wanted) if wanted.families else services.gateway.resolve(wanted.name)
    except ModelNotAvailable as error:
        raise refused(f"{field}.name", error.message, error.fix) from error
    if wanted.name and route.provider.name == "local" and "/" in route.model and not caller.operates:
        text = "only the operator may have the server open a model file by its path"
        raise refused(f"{field}.name", text, "Name local/small, or local/large.")
    if route.price is None:
        message = f"the price of {route.id} is not known, so no cap could hold"
        raise refused(f"{field}.name", message, "Choose a model with a price.")
    return PinnedModel(route.id, route.price)


def refused(field: str, message: str, fix: str) -> Problem:
    """A refusal of an AgentRun for one field."""
    cause = Cause(field=field, reason="FieldValueInvalid", message=message)
    return Problem(Reason.Invalid, f"AgentRun is invalid: {field}: {message}", fix=fix, causes=[cause])


def _from_families(services: Services, wanted: Model) -> Route:
    """The server's default if it is of an allowed family, or of none; else the nearest allowed family's model."""
    route = services.gateway.resolve("")
    return services.gateway.within(route, wanted.families or [])


async def _own(services: Services, conn: AsyncConnection, namespace: str, wanted: Model, field: str) -> PinnedModel:
    name = wanted.name or FAMILIES[nearest(wanted.families or list(FAMILIES), "sonnet")]
    route = services.gateway.own_route(wanted.protocol or "Anthropic", name)
    secret = await objects.get(conn, "Secret", namespace, wanted.api_key_secret)
    if secret is None:
        fix = f"Create it: corral create secret {wanted.api_key_secret} --from-literal {_USUAL_FIELD['Anthropic']}=..."
        raise refused(f"{field}.apiKeySecret", f"there is no secret {wanted.api_key_secret!r} in the project", fix)
    pinned = PinnedSecret(secret.uid, int(secret.status.get("version", 0)))
    key = _field(wanted, secret.status.get("keys", []), field)
    return PinnedModel(route, FREE, OwnKey(wanted.protocol or "Anthropic", pinned, key))


def _field(wanted: Model, keys: list[str], field: str) -> str:
    """Which value of the secret is the key: the one that is named, the only one, or the one with the usual name."""
    if wanted.api_key_field:
        if wanted.api_key_field in keys:
            return wanted.api_key_field
        message = f"the secret {wanted.api_key_secret!r} has no value {wanted.api_key_field!r}"
        raise refused(f"{field}.apiKeyField", message, f"Its values are {', '.join(keys) or 'none'}.")
    usual = _USUAL_FIELD[wanted.protocol or "Anthropic"]
    if len(keys) == 1 or usual in keys:
        return usual if usual in keys else keys[0]
    message = f"the secret {wanted.api_key_secret!r} has {len(keys)} values, and none is named {usual}"
    raise refused(f"{field}.apiKeyField", message, "Say which one is the key with apiKeyField.")
