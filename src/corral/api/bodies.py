"""The bodies on the wire that are not objects of a kind: refusals, lists, events, what subresources take and give."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from corral.kinds import Cause
from corral.kinds.agentrun import MessageRequest
from corral.verbs.team import ControlRequest

OrNull = Annotated[str | None, WithJsonSchema({"type": ["string", "null"]})]


class Body(BaseModel):
    """A body on the wire that is not an object of a kind."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True)


class StatusDetails(Body):
    """What a program can use of a Status; more members may be there."""

    kind: str | None = None
    """The kind, or its plural, of the object that the request was about."""
    name: str | None = None
    """The object's name."""
    uid: str | None = None
    """The object's uid."""
    causes: list[Cause] | None = None
    """The fields that are wrong."""
    diff: dict[str, Any] | None = None
    """AlreadyExists: what differs between the object that exists and the one that was sent."""
    missing_scope: str | None = None
    """Forbidden: what the key would need."""
    retry_after_seconds: int | None = None
    """When to ask again."""


class Status(Body):
    """The answer to a request that was refused, or to a deletion."""

    kind: Literal["Status"]
    api_version: Literal["v1"]
    metadata: dict[str, Any]
    status: Literal["Success", "Failure"]
    code: int | None = None
    """The HTTP status."""
    reason: str | None = None
    """One word that programs can rely on."""
    message: str | None = None
    """The same for people."""
    details: StatusDetails | None = None
    """What a program can use."""
    fix: str | None = None
    """What to do about it."""
    docs: str | None = None
    """Where the reason is explained."""
    request_id: str | None = None
    """The request's id, which the server's log has as well."""


class ListMeta(Body):
    """Where a list stands in the history of the server."""

    resource_version: str
    """Watch from here to miss nothing."""
    continue_: str | None = Field(default=None, alias="continue")
    """Send it back as `continue` for the next page; missing on the last one."""


class TableColumn(Body):
    """A column; `priority` above 0 is for wide output."""

    name: str
    type: str
    format: str
    description: str
    priority: int


class TableRow(Body):
    """The cells of an object, and its metadata."""

    cells: list[Any]
    object: dict[str, Any]


class Table(Body):
    """A list drawn by the server, for clients that ask for `as=Table` in Accept."""

    kind: Literal["Table"]
    api_version: Literal["meta.k8s.io/v1"]
    metadata: dict[str, Any]
    column_definitions: list[TableColumn]
    rows: list[TableRow]


class WatchEvent(Body):
    """One line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: dict[str, Any]
    """The object after the change; of a BOOKMARK only its resourceVersion counts."""


class PatchStep(Body):
    """One operation of a JSON patch."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    """A JSON pointer, such as /spec/maxTokens."""
    from_: str | None = Field(default=None, alias="from")
    """The pointer that `move` and `copy` take the value from."""
    value: Any = None
    """What `add`, `replace` and `test` are about."""


class Step(Body):
    """Something that a run did once, as its journal has it."""

    id: int
    """The place in the order of steps."""
    key: str
    """What identifies the step in the run."""
    name: str
    occurrence: int
    effect: str
    """What doing it twice would mean."""
    outcome: str
    attempt: int
    start_time: OrNull
    completion_time: OrNull
    """Null while the step runs."""
    cost_usd: str = Field(alias="costUSD")
    """What the step cost, in USD."""
    result_size: int
    """Bytes of the recorded result."""
    detail: Any = None
    """What people want to see of the step."""


class StepList(Body):
    """What a run did, in order."""

    items: list[Step]
    version: int
    """Ask with `after` this version for what came later."""


class Receipt(Body):
    """A message, or a control, that is recorded and will be delivered once."""

    seq: int
    """The place among the run's messages."""
    message_key: str
    """The key, also when the server made it."""


class RunEvent(Body):
    """One line of a run that is followed: a step, or the run itself."""

    type: Literal["step", "run"]
    version: int
    """Ask with `after` this version for what comes later."""
    step: Step | None = None
    object: dict[str, Any] | None = None
    """The AgentRun."""


class Team(Body):
    """What the subtasks of a run do, and what a person can do next."""

    version: int
    """Of the view's form."""
    summary: dict[str, Any]
    """`title`, `message`, the `action` that a person can take, and counts of subtasks."""
    items: list[dict[str, Any]]
    """The subtasks."""
    verification: dict[str, Any]
    concurrency: dict[str, Any]


class Whoami(Body):
    """Whom a key speaks for."""

    kind: str
    user: str
    email: str
    org: str
    org_name: str
    role: str
    projects: list[str]
    """The projects that the key reaches."""
    scopes: list[str]
    """What the key may do: `*`, or such as `agents:read` and `agents:write`."""
    service_account: str


class Configuration(Body):
    """What clients ask before they have a key."""

    console_url: str = Field(alias="consoleURL")
    """Where the pages for people are."""


class RedeemRequest(Body):
    """A login's code, and the secret that its challenge was made of."""

    code: str
    code_verifier: str


class IssuedKey(Body):
    """A new key: this answer is the only one that has it."""

    org: str
    org_name: str
    project: str
    key: str
    name: str
    """The APIKey object: deleting it ends the key."""


class IssuedKeys(Body):
    """The keys of a login."""

    keys: list[IssuedKey]


class DeviceCodeRequest(BaseModel):
    """Who asks for a device login."""

    client_id: str


class DeviceCode(BaseModel):
    """A device login that waits for a person (RFC 8628, section 3.2)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class DeviceTokenRequest(BaseModel):
    """Asks whether a device login was approved (RFC 8628, section 3.4)."""

    grant_type: Literal["urn:ietf:params:oauth:grant-type:device_code"]
    device_code: str


class OAuthError(BaseModel):
    """Why there is no key, in the form of OAuth."""

    error: Literal[
        "authorization_pending",
        "slow_down",
        "access_denied",
        "expired_token",
        "invalid_grant",
        "unsupported_grant_type",
    ]


ALL: tuple[type[BaseModel], ...] = (
    Status,
    ListMeta,
    Table,
    WatchEvent,
    PatchStep,
    StepList,
    RunEvent,
    MessageRequest,
    ControlRequest,
    Receipt,
    Team,
    Whoami,
    Configuration,
    RedeemRequest,
    IssuedKeys,
    DeviceCodeRequest,
    DeviceCode,
    DeviceTokenRequest,
    OAuthError,
)
