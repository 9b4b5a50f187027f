"""Logging in: a program gets a key of its own once a person, who has a key, approves it.

Two ways. Over loopback (RFC 8252) with PKCE (RFC 7636): the browser hands the program a code, which is worth nothing
without the verifier that only the program knows. By device code (RFC 8628): the program asks again and again, while the
person types a short code in any browser. The new key allows what the person's key allows, and is an APIKey that can be
deleted. Codes work once, for minutes, and are stored as SHA-256.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, replace
from typing import Any

from corral.base import ids
from corral.kinds import CREATED_BY, Problem, Reason
from corral.kinds.apikey import APIKey, APIKeySpec
from corral.kinds.organization import LOCAL
from corral.kinds.project import DEFAULT
from corral.store import Tx, logins, objects
from corral.store.logins import Login
from corral.store.objects import Stored

from . import access, admission
from .services import Caller, Services

CODE_SECONDS = 300
"""How long the code of a loopback login works."""
DEVICE_SECONDS = 600
"""How long a device login waits for its approval."""
INTERVAL_SECONDS = 5
"""How often the program may ask."""
MAX_OPEN = 1000
"""Logins under way. Anybody can begin a device login, so there is a limit to the rows they take."""

_KEPT_SECONDS = 600  # after the end, so that the program is told "expired"
_EARLY_MS = 500  # a question may come this much too soon: networks are not even
_LONGEST_MS = 60_000
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # as RFC 8628, section 6.1 suggests: no vowels, no digits
_CHALLENGE = re.compile(r"^[A-Za-z0-9_-]{43}$")
_VERIFIER = re.compile(r"^[A-Za-z0-9._~-]{43,128}$")


@dataclass(frozen=True)
class Device:
    """What a program shows, and what it asks with."""

    device_code: str
    user_code: str


class Pending(Exception):
    """No key (yet); `error` is the word of RFC 8628, section 3.5."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


def is_challenge(text: str) -> bool:
    """Whether the text can be a PKCE challenge of the method S256."""
    return _CHALLENGE.match(text) is not None


async def approve_loopback(services: Services, approver: str, challenge: str, client: str) -> str:
    """The code for the program with that challenge. `approver` is the SHA-256 of a key. Raises Problem."""
    code = secrets.token_urlsafe(32)

    async def work(tx: Tx) -> None:
        await _approver(services, tx, approver)
        expires = tx.now + CODE_SECONDS * 1000
        login = Login(_digest(code), expires, client, challenge=challenge, state="approved", approver=approver)
        await _begin(tx, login)

    await services.store.write(work)
    return code


async def redeem(services: Services, code: str, verifier: str) -> list[dict[str, Any]]:
    """The key for a code of `approve_loopback`. Any try uses the code up. Raises Problem BadRequest."""

    async def work(tx: Tx) -> dict[str, Any] | None:
        login = await logins.find(tx, _digest(code))
        if login is None or login.challenge is None:
            return None
        await logins.remove(tx, login.digest)
        if login.expires <= tx.now or not _proves(verifier, login.challenge):
            return None
        return await _issue(services, tx, login)

    issued = await services.store.write(work)
    if issued is None:
        fix = "Begin the login again."
        raise Problem(
            Reason.BadRequest, "the code was used, has expired, or is not for this program's verifier", fix=fix
        )
    return [issued]


async def begin_device(services: Services, client: str) -> Device:
    """A new device login. Raises Problem TooManyRequests."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(8))
    device = Device(secrets.token_urlsafe(32), f"{letters[:4]}-{letters[4:]}")

    async def work(tx: Tx) -> None:
        if await logins.pending(tx.conn) >= MAX_OPEN:
            details = {"retryAfterSeconds": 60}
            text = "too many logins are under way"
            raise Problem(Reason.TooManyRequests, text, fix="Try again in a minute.", details=details)
        expires = tx.now + DEVICE_SECONDS * 1000
        login = Login(_digest(device.device_code), expires, client, interval=INTERVAL_SECONDS * 1000)
        await _begin(tx, replace(login, user_code=_user_code(device.user_code)))

    await services.store.write(work)
    return device


async def decide_device(services: Services, approver: str, user_code: str, approve: bool) -> str:
    """Approve or deny the login with that typed code; the answer is what the program says of itself.

    `approver` is the SHA-256 of a key. Raises Problem: Forbidden for a key that cannot, NotFound for a code that is
    unknown, decided or expired.
    """

    async def work(tx: Tx) -> str:
        await _approver(services, tx, approver)
        login = await logins.find_user_code(tx, _user_code(user_code))
        if login is None or login.expires <= tx.now:
            fix = "Look at the code on the other screen, or begin the login again."
            raise Problem(Reason.NotFound, "no login waits for this code", fix=fix)
        state = "approved" if approve else "denied"
        # Without its typed code nobody finds it again to decide otherwise.
        await logins.change(tx, login.digest, state=state, approver=approver, user_code=None)
        return login.client

    return await services.store.write(work)


async def poll_device(services: Services, device_code: str) -> list[dict[str, Any]]:
    """The key, once the login is approved. Raises Pending."""

    async def work(tx: Tx) -> dict[str, Any] | str:
        login = await logins.find(tx, _digest(device_code))
        if login is None or login.challenge is not None:
            return "invalid_grant"
        if login.expires <= tx.now:
            return "expired_token"
        if login.state == "pending":
            return await _wait(tx, login)
        await logins.remove(tx, login.digest)
        return "access_denied" if login.state == "denied" else await _issue(services, tx, login) or "access_denied"

    outcome = await services.store.write(work)
    if isinstance(outcome, str):
        raise Pending(outcome)
    return [outcome]


async def _wait(tx: Tx, login: Login) -> str:
    """Who asks too often has to wait 5 seconds longer from then on (RFC 8628, section 3.5)."""
    early = tx.now - login.polled < login.interval - _EARLY_MS
    interval = min(login.interval + 5000, _LONGEST_MS) if early else login.interval
    await logins.change(tx, login.digest, polled=tx.now, interval=interval)
    return "slow_down" if early else "authorization_pending"


async def _begin(tx: Tx, login: Login) -> None:
    await logins.purge(tx, tx.now - _KEPT_SECONDS * 1000)
    await logins.add(tx, login)


async def _approver(services: Services, tx: Tx, digest: str) -> Caller:
    """Whoever approves could make the key himself: a key without that right must not outlive itself by a login."""
    caller = await access.caller_of(services, tx.conn, digest)
    if caller is None:
        raise Problem(Reason.Unauthorized, "this is not a valid key", fix="`corral env` shows the operator's key.")
    access.check(caller, APIKey, "write")
    return caller


async def _issue(services: Services, tx: Tx, login: Login) -> dict[str, Any] | None:
    """A key with the limits of the approver's, as they are now; None if that has been revoked meanwhile."""
    caller = await access.caller_of(services, tx.conn, login.approver or "")
    if caller is None:
        return None
    spec = APIKeySpec(
        display_name=f"login of {login.client}"[:200],
        scopes=list(caller.scopes),
        projects=list(caller.projects),
        expiration_time=caller.expires,
    )
    name = f"login-{ids.new_suffix(10)}"
    asked = APIKey.model_validate({"metadata": {"name": name}, "spec": spec})
    metadata = {"labels": {CREATED_BY: caller.user}}
    new = Stored.new(APIKey.__name__, "", name, metadata=metadata, spec=spec.wire())
    made = await objects.create(tx, await admission.act(APIKey.__name__, "create")(services, caller, tx, new, asked))
    project = caller.projects[0] if caller.projects else DEFAULT
    return {"org": LOCAL, "orgName": LOCAL, "project": project, "key": made.disclosed["key"], "name": name}


def _proves(verifier: str, challenge: str) -> bool:
    if not _VERIFIER.match(verifier):
        return False
    digest = hashlib.sha256(verifier.encode()).digest()
    return hmac.compare_digest(base64.urlsafe_b64encode(digest).decode().rstrip("="), challenge)


def _digest(code: str) -> str:
    return ids.digest(code.encode("utf-8", "replace"))


def _user_code(typed: str) -> str:
    return _digest(re.sub(r"[^A-Z]", "", typed.upper()))
