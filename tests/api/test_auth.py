"""Logging in over HTTP, with a stand-in for the browser: both flows, and what must not work in them."""

import base64
import hashlib
import html
import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from corral.api.guard import Guard
from corral.verbs import logins
from house import PROJECT, House, house

ROOT = "/apis/nodus.dev/v1"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
ASKED = {"code_challenge": CHALLENGE, "host": "laptop", "port": "45678", "state": "st-1"}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home") as running:
        yield running


@pytest.fixture
async def browser(here: House) -> AsyncIterator[httpx2.AsyncClient]:
    """Has no key, keeps cookies, says where its forms come from."""
    base = here.client.base_url
    async with httpx2.AsyncClient(base_url=base, trust_env=False, timeout=30) as opened:
        yield opened


def operator(here: House) -> str:
    return (here.home / "key").read_text().strip()


def hidden(page: str) -> dict[str, str]:
    """The form's fields, as a browser would send them back."""
    inputs = re.findall(r'<input[^>]* name="([^"]+)"[^>]* value="([^"]*)"', page)
    return {name: html.unescape(value) for name, value in inputs}


async def submit(browser: httpx2.AsyncClient, path: str, fields: dict[str, str], **extra: str) -> httpx2.Response:
    origin = str(browser.base_url).rstrip("/")
    return await browser.post(path, data=fields | extra, headers={"Origin": origin})


async def loopback_code(here: House, browser: httpx2.AsyncClient, key: str = "", **asked: str) -> str:
    page = await browser.get("/cli-auth", params=ASKED | asked)
    assert page.status_code == 200, page.text
    sent = await submit(browser, "/cli-auth", hidden(page.text), key=key or operator(here), decision="approve")
    assert sent.status_code == 303, sent.text
    return parse_qs(urlsplit(sent.headers["location"]).query)["code"][0]


async def redeem(browser: httpx2.AsyncClient, code: str, verifier: str = VERIFIER) -> httpx2.Response:
    return await browser.post("/auth/cli-keys/redeem", json={"code": code, "codeVerifier": verifier})


async def begin(browser: httpx2.AsyncClient) -> dict[str, Any]:
    begun = await browser.post("/auth/device/code", json={"client_id": "nodus-cli"})
    assert begun.status_code == 200, begun.text
    return dict(begun.json())


async def poll(browser: httpx2.AsyncClient, code: str) -> httpx2.Response:
    return await browser.post("/auth/device/token", json={"grant_type": GRANT, "device_code": code})


async def decide(here: House, browser: httpx2.AsyncClient, typed: str, decision: str, key: str = "") -> httpx2.Response:
    page = await browser.get("/device")
    fields = hidden(page.text) | {"user_code": typed}
    return await submit(browser, "/device", fields, key=key or operator(here), decision=decision)


async def works(here: House, key: str) -> int:
    answer = await here.client.get("/auth/whoami", headers={"Authorization": f"Bearer {key}"})
    return answer.status_code


async def test_clients_learn_where_the_pages_are(here: House, browser: httpx2.AsyncClient) -> None:
    told = (await browser.get("/.well-known/nodus-configuration")).json()
    assert told == {"consoleURL": str(here.client.base_url).rstrip("/")}


async def test_a_login_over_loopback_gives_a_key_that_logs_out(here: House, browser: httpx2.AsyncClient) -> None:
    page = await browser.get("/cli-auth", params=ASKED)
    assert "<strong>laptop</strong>" in page.text
    sent = await submit(browser, "/cli-auth", hidden(page.text), key=operator(here), decision="approve")
    back = urlsplit(sent.headers["location"])
    assert (sent.status_code, back.scheme, back.netloc, back.path) == (303, "http", "127.0.0.1:45678", "/callback")
    query = parse_qs(back.query)
    assert (set(query), query["state"]) == ({"code", "state"}, ["st-1"])
    answer = await redeem(browser, query["code"][0])
    assert answer.headers["cache-control"] == "no-store"
    (key,) = answer.json()["keys"]
    assert (key["org"], key["orgName"], key["project"]) == ("local", "local", "default")
    assert await works(here, key["key"]) == 200
    shown = (await here.client.get(f"{ROOT}/apikeys/{key['name']}")).json()
    assert (shown["spec"]["displayName"], shown["spec"]["scopes"]) == ("login of laptop", ["*"])
    out = await browser.delete(f"{ROOT}/apikeys/{key['name']}", headers={"Authorization": f"Bearer {key['key']}"})
    assert (out.status_code, await works(here, key["key"])) == (200, 401)


async def test_a_code_works_once_and_only_with_its_verifier(here: House, browser: httpx2.AsyncClient) -> None:
    code = await loopback_code(here, browser)
    assert (await redeem(browser, code)).status_code == 200
    assert (await redeem(browser, code)).status_code == 400
    code = await loopback_code(here, browser)
    wrong = await redeem(browser, code, "w" * 43)
    assert (wrong.status_code, wrong.json()["reason"]) == (400, "BadRequest")
    assert (await redeem(browser, code)).status_code == 400, "a wrong try uses the code up"
    for verifier in ("", CHALLENGE, VERIFIER + "é", "v" * 42):
        assert (await redeem(browser, await loopback_code(here, browser), verifier)).status_code == 400
    assert (await redeem(browser, "never-given")).status_code == 400


async def test_a_code_expires(here: House, browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "CODE_SECONDS", 0)
    assert (await redeem(browser, await loopback_code(here, browser))).status_code == 400


async def test_denied_means_no_code(here: House, browser: httpx2.AsyncClient) -> None:
    page = await browser.get("/cli-auth", params=ASKED)
    sent = await submit(browser, "/cli-auth", hidden(page.text), key="", decision="deny")
    assert sent.headers["location"] == "http://127.0.0.1:45678/callback?error=access_denied&state=st-1"
    silent = await submit(browser, "/cli-auth", hidden(page.text), key=operator(here))
    assert "code=" not in silent.headers["location"], "what is not approved is denied"


@pytest.mark.parametrize(
    "asked",
    [
        {"port": "80@evil.test"},
        {"port": "//evil.test"},
        {"port": "80\r\nLocation: http://evil.test"},
        {"port": "0"},
        {"port": "65536"},
        {"port": "-1"},
        {"port": "٤٥٦٧"},
        {"port": ""},
        {"code_challenge": "short"},
        {"code_challenge": CHALLENGE + "="},
        {"state": ""},
        {"state": "s" * 513},
    ],
)
async def test_the_browser_goes_back_to_a_port_of_loopback_only(
    here: House, browser: httpx2.AsyncClient, asked: dict[str, str]
) -> None:
    token = hidden((await browser.get("/cli-auth", params=ASKED)).text)["form"]
    assert (await browser.get("/cli-auth", params=ASKED | asked)).status_code == 400
    fields = ASKED | asked | {"form": token}
    sent = await submit(browser, "/cli-auth", fields, key=operator(here), decision="approve")
    assert (sent.status_code, sent.headers.get("location")) == (400, None)


async def test_parameters_cannot_redirect_elsewhere(here: House, browser: httpx2.AsyncClient) -> None:
    asked = ASKED | {"host": "evil.test", "redirect_uri": "http://evil.test", "state": "a&code=b#c\r\nX: y"}
    page = await browser.get("/cli-auth", params=asked)
    sent = await submit(browser, "/cli-auth", hidden(page.text), key=operator(here), decision="approve")
    back = urlsplit(sent.headers["location"])
    assert (back.netloc, back.fragment) == ("127.0.0.1:45678", "")
    assert parse_qs(back.query)["state"] == [asked["state"]]
    assert len(parse_qs(back.query)["code"]) == 1
    assert "x" not in sent.headers


async def test_pages_show_nothing_unescaped_and_allow_no_scripts(here: House, browser: httpx2.AsyncClient) -> None:
    nasty = "\"><script>alert(1)</script><input name='key' value='"
    for path, asked in (("/cli-auth", ASKED | {"host": nasty, "state": nasty}), ("/device", {"user_code": nasty})):
        page = await browser.get(path, params=asked)
        assert page.status_code == 200
        assert "<script" not in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script-src" not in policy
        assert f"form-action 'self'{' http://127.0.0.1:45678' if path == '/cli-auth' else ''};" in policy
        assert page.headers["referrer-policy"] == "same-origin"
        style = page.text.partition("<style>")[2].partition("</style>")[0]
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert f"style-src 'sha256-{digest}'" in policy, "a browser applies the style"
        cookie = page.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", f"Path={path}"} <= set(cookie.split("; "))
        sent = await submit(browser, path, hidden(page.text) | {"user_code": nasty}, key="wrong", decision="approve")
        assert "<script" not in sent.text
        assert "not a valid key" in sent.text


@pytest.mark.parametrize("path", ["/cli-auth", "/device"])
async def test_a_form_from_elsewhere_is_refused(here: House, browser: httpx2.AsyncClient, path: str) -> None:
    device = await begin(browser)
    fields = ASKED | {"user_code": device["user_code"], "key": operator(here), "decision": "approve"}
    assert (await submit(browser, path, fields)).status_code == 403, "no cookie, no token"
    token = hidden((await browser.get(path, params=ASKED)).text)["form"]
    assert (await submit(browser, path, fields)).status_code == 403, "a cookie, no token"
    other = secrets.token_urlsafe(32)
    assert (await submit(browser, path, fields, form=other)).status_code == 403, "another's token"
    for origin in ("http://evil.test", "null"):
        sent = await browser.post(path, data=fields | {"form": token}, headers={"Origin": origin})
        assert sent.status_code == 403, "another site's page"
    browser.cookies.clear()
    assert (await submit(browser, path, fields, form=token)).status_code == 403, "a token, no cookie"
    assert (await poll(browser, device["device_code"])).json() == {"error": "authorization_pending"}


async def test_a_wrong_key_approves_nothing(here: House, browser: httpx2.AsyncClient) -> None:
    page = await browser.get("/cli-auth", params=ASKED)
    for key in ("", "nodus_wrong", "é\ud83d".encode("utf-8", "replace").decode()):
        sent = await submit(browser, "/cli-auth", hidden(page.text), key=key, decision="approve")
        assert sent.status_code == 401
        assert hidden(sent.text)["state"] == "st-1", "the person can try again"


async def test_the_new_key_allows_what_the_approvers_allows(here: House, browser: httpx2.AsyncClient) -> None:
    spec = {"user": "alice", "scopes": ["agents:read", "apikeys:write"], "projects": ["default"]}
    spec |= {"expirationTime": "2999-01-01T00:00:00Z"}
    made = await here.client.post(f"{ROOT}/apikeys", json={"metadata": {"name": "a"}, "spec": spec})
    key = made.json()["status"]["key"]
    issued = (await redeem(browser, await loopback_code(here, browser, key))).json()["keys"][0]
    shown = (await here.client.get(f"{ROOT}/apikeys/{issued['name']}")).json()
    assert {name: shown["spec"].get(name) for name in ("scopes", "projects", "expirationTime")} == {
        name: spec[name] for name in ("scopes", "projects", "expirationTime")
    }
    assert shown["status"]["user"]["id"] == "alice"


async def test_a_key_that_may_not_make_keys_approves_no_login(here: House, browser: httpx2.AsyncClient) -> None:
    spec = {"scopes": ["*:read", "agents:write"]}
    made = await here.client.post(f"{ROOT}/apikeys", json={"metadata": {"name": "a"}, "spec": spec})
    page = await browser.get("/cli-auth", params=ASKED)
    key = made.json()["status"]["key"]
    sent = await submit(browser, "/cli-auth", hidden(page.text), key=key, decision="approve")
    assert sent.status_code == 403
    assert "apikeys:write" in sent.text


async def test_a_revoked_approver_is_worth_nothing(here: House, browser: httpx2.AsyncClient) -> None:
    made = await here.client.post(f"{ROOT}/apikeys", json={"metadata": {"name": "a"}, "spec": {"scopes": ["*"]}})
    code = await loopback_code(here, browser, made.json()["status"]["key"])
    device = await begin(browser)
    decided = await decide(here, browser, device["user_code"], "approve", made.json()["status"]["key"])
    assert decided.status_code == 200
    await here.client.delete(f"{ROOT}/apikeys/a")
    assert (await redeem(browser, code)).status_code == 400
    assert (await poll(browser, device["device_code"])).json() == {"error": "access_denied"}


async def test_a_device_login_waits_and_gives_its_key_once(here: House, browser: httpx2.AsyncClient) -> None:
    device = await begin(browser)
    assert re.fullmatch(r"[B-Z]{4}-[B-Z]{4}", device["user_code"])
    assert device["verification_uri"] == f"{str(here.client.base_url).rstrip('/')}/device"
    assert device["user_code"] in hidden((await browser.get(device["verification_uri_complete"])).text)["user_code"]
    assert (device["expires_in"], device["interval"]) == (600, 5)
    first = await poll(browser, device["device_code"])
    assert (first.status_code, first.json()) == (400, {"error": "authorization_pending"})
    assert (await poll(browser, device["device_code"])).json() == {"error": "slow_down"}
    typed = device["user_code"].lower().replace("-", " ")
    decided = await decide(here, browser, typed, "approve")
    assert decided.status_code == 200
    assert "nodus-cli" in decided.text
    assert (await decide(here, browser, typed, "approve")).status_code == 404, "the typed code works once"
    given = await poll(browser, device["device_code"])
    assert await works(here, given.json()["keys"][0]["key"]) == 200
    assert (await poll(browser, device["device_code"])).json() == {"error": "invalid_grant"}


async def test_a_device_login_that_is_denied_or_late_ends(
    here: House, browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = await begin(browser)
    assert (await decide(here, browser, device["user_code"], "deny", "wrong")).status_code == 401
    assert (await decide(here, browser, device["user_code"], "deny")).status_code == 200
    assert (await poll(browser, device["device_code"])).json() == {"error": "access_denied"}
    monkeypatch.setattr(logins, "DEVICE_SECONDS", 0)
    late = await begin(browser)
    assert (await decide(here, browser, late["user_code"], "approve")).status_code == 404
    assert (await poll(browser, late["device_code"])).json() == {"error": "expired_token"}


async def test_the_device_endpoints_speak_forms_and_refuse_the_rest(
    here: House, browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await browser.post("/auth/device/code", data={"client_id": "other"})
    form = {"grant_type": GRANT, "device_code": begun.json()["device_code"]}
    assert (await browser.post("/auth/device/token", data=form)).json() == {"error": "authorization_pending"}
    refused = await browser.post("/auth/device/token", data=form | {"grant_type": "password"})
    assert (refused.status_code, refused.json()) == (400, {"error": "unsupported_grant_type"})
    assert (await poll(browser, "never-given")).json() == {"error": "invalid_grant"}
    for path in ("/auth/device/code", "/auth/device/token", "/auth/cli-keys/redeem"):
        for body in (b"", b"[]", b'{"code": 1}', b"{"):
            answer = await browser.post(path, content=body)
            assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    code = await loopback_code(here, browser)
    assert (await poll(browser, code)).json() == {"error": "invalid_grant"}, "each kind of code has its own door"
    assert (await redeem(browser, begun.json()["device_code"])).status_code == 400
    monkeypatch.setattr(logins, "MAX_OPEN", 1)
    full = await browser.post("/auth/device/code", json={"client_id": "nodus-cli"})
    assert (full.status_code, full.headers["retry-after"]) == (429, "60")


async def test_codes_and_keys_are_in_no_file_and_no_log(
    here: House, browser: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="corral")
    caplog.set_level("DEBUG", logger="sqlalchemy")
    code, device = await loopback_code(here, browser), await begin(browser)
    spent = await loopback_code(here, browser)
    key = (await redeem(browser, spent)).json()["keys"][0]["key"]
    told = "".join(r.getMessage() for r in caplog.records if r.name.startswith(("corral", "sqlalchemy", "uvicorn")))
    stored = b"".join(file.read_bytes() for file in here.home.glob("corral.db*"))
    assert b"login of laptop" in stored, "the files that are looked at are the right ones"
    for secret in (code, spent, key, device["device_code"], device["user_code"], operator(here)):
        assert secret.encode() not in stored
        assert secret not in told


async def test_what_is_open_is_listed_and_nothing_else_is(here: House, browser: httpx2.AsyncClient) -> None:
    for path in ("/auth/whoami", "/", "/apis", f"{PROJECT}/agents", "/device/", "/cli-auth/x", "/auth/device"):
        assert (await browser.get(path)).status_code == 401, path


async def test_websockets_need_the_key_too() -> None:
    """No route takes one yet; the guard must not be open when one does."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nothing gets here without a key")

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    services: Any = None
    scope = {"type": "websocket", "path": "/apis", "query_string": b"", "headers": [(b"host", b"127.0.0.1:1")]}
    scope["extensions"] = {"websocket.http.response": {}}
    await Guard(app, services, loopback=True)(scope, receive, send)
    assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 401)
