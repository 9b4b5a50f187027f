"""The paths of the OpenAPI document that belong to no kind: health, discovery, identity and logins."""

from corral.kinds import Reason

from . import discovery
from .operations import JSON, ROOT, TEXT, Operation, content, operation, parameter
from .schemas import ref

FORM = "application/x-www-form-urlencoded"


def _healthy(name: str, text: str) -> Operation:
    return operation(name, text, answers={200: content("It does.", {"type": "string"}, TEXT)}, open_to_all=True)


def _found(name: str, text: str) -> Operation:
    return operation(name, text, answers={200: content("As in Kubernetes.", {"type": "object"})})


def _login(name: str, text: str, asked: str, answered: str, *refusals: Reason) -> Operation:
    body = {media_type: {"schema": ref(asked)} for media_type in (JSON, FORM)}
    answers = {200: content("It is done.", ref(answered))}
    return operation(name, text, body=body, answers=answers, refusals=refusals, open_to_all=True)


device_token = _login(
    "createDeviceToken", "Ask whether a device login was approved (RFC 8628).", "DeviceTokenRequest", "IssuedKeys"
)
device_token["responses"]["400"] = content("Not yet, or never.", {"anyOf": [ref("OAuthError"), ref("Status")]})

_reason = parameter("reason", "The reason of a Status.", "path", type="string", enum=list(Reason.__members__))
explained = operation(
    "explainReason",
    "Read what a reason means and what to do.",
    parameters=[_reason],
    answers={200: content("The text.", {"type": "string"}, TEXT)},
    refusals=[Reason.NotFound],
    open_to_all=True,
)

paths: dict[str, dict[str, Operation]] = {
    "/healthz": {"get": _healthy("healthz", "Whether the process answers.")},
    "/readyz": {"get": _healthy("readyz", "Whether the database answers, too.")},
    "/api": {"get": _found("readCoreVersions", "List the versions of Kubernetes' nameless group: none.")},
    "/apis": {"get": _found("listGroups", "List the groups of the API: one.")},
    f"/apis/{discovery.GROUP}": {"get": _found("readGroup", "Read the group of the API.")},
    ROOT: {"get": _found("listKinds", "List the kinds and what can be done with them.")},
    "/auth/whoami": {
        "get": operation("whoami", "Whom the key speaks for.", answers={200: content("The user.", ref("Whoami"))})
    },
    "/.well-known/nodus-configuration": {
        "get": operation(
            "readConfiguration",
            "Where the pages for people are.",
            answers={200: content("The address.", ref("Configuration"))},
            open_to_all=True,
        )
    },
    "/auth/cli-keys/redeem": {
        "post": _login(
            "redeemCode",
            "Get the key for a code that a browser brought (PKCE, RFC 7636).",
            "RedeemRequest",
            "IssuedKeys",
            Reason.BadRequest,
        )
    },
    "/auth/device/code": {
        "post": _login(
            "createDeviceCode",
            "Begin a device login (RFC 8628).",
            "DeviceCodeRequest",
            "DeviceCode",
            Reason.BadRequest,
            Reason.TooManyRequests,
        )
    },
    "/auth/device/token": {"post": device_token},
    "/docs/errors/{reason}": {"get": explained},
}
