"""Log in to a server: get a key, keep it, and use that server from now on.

Without an option, a page in your browser asks you to approve. The key is kept in a file that only you can read, and
`corral logout` makes it invalid.

For example:
  corral login http://corral.example:8700
  corral login --device http://corral.example:8700
  echo "$KEY" | corral login --with-token http://corral.example:8700
"""

import getpass
import re
import sys
from typing import Annotated, Any
from urllib.parse import urlsplit

import anyio
import httpx2
import typer

from corral.cli import connection, contexts, identity, logins, options, printing
from corral.cli.contexts import Context
from corral.cli.failures import Failure, usage
from corral.cli.logins import Granted
from corral.sdk import Client


def command(
    url: Annotated[str, typer.Argument(help="The server; the one in use if left out.")] = "",
    name: Annotated[str, typer.Option(help="The context's name; the organisation's or the host's if left out.")] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="The project to work in there.")] = "",
    device: Annotated[bool, typer.Option("--device", help="Approve on another device, with a code.")] = False,
    with_token: Annotated[bool, typer.Option("--with-token", help="Read a key from stdin.")] = False,
    browser: Annotated[bool, typer.Option(help="Open the browser, or only print the address.")] = True,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for the browser.")] = "5m",
) -> None:
    if device and with_token:
        raise usage("--device and --with-token exclude each other", "Use one of them.")
    seconds = options.duration(timeout).total_seconds()
    if name:
        contexts.checked(name)
    address = _address(url)
    if address.startswith("http://") and not _here(address):
        printing.err(f"Careful: {address} is not encrypted; who is on the way can read the key.")
    typed = _typed() if with_token else ""
    if with_token and (not typed or not typed.isascii() or len(typed.split()) != 1):
        raise usage("stdin holds no key", 'Write it there: echo "$KEY" | corral login --with-token URL')

    async def work() -> None:
        if with_token:
            granted = [Granted(typed, "", "", project or "default")]
        else:
            granted = await _ask(address, device=device, browser=browser, seconds=seconds)
        for grant in reversed(granted):
            await _keep(address, grant, name if grant is granted[0] else "", project)

    anyio.run(connection.translated, work)


def _here(address: str) -> bool:
    return urlsplit(address).hostname in ("127.0.0.1", "::1", "localhost")


def _typed() -> str:
    """The key on stdin; a person who types it does not see it."""
    return (getpass.getpass("Key: ") if sys.stdin.isatty() else sys.stdin.read()).strip()


def _address(url: str) -> str:
    """The server's address without a path. Raises Failure when it is none."""
    if not url:
        found = connection.find()
        if found is None:
            raise usage("no server is named", "Write its address: corral login http://HOST:8700")
        return found.url
    parts = urlsplit(url if "://" in url else f"https://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise usage(f"{url!r} is not the address of a server", "Write such as http://127.0.0.1:8700.")
    return f"{parts.scheme}://{parts.netloc}"


async def _ask(address: str, *, device: bool, browser: bool, seconds: float) -> list[Granted]:
    try:
        async with logins.client(address) as http:
            if device:
                return await logins.by_device(http)
            return await logins.by_browser(http, opening=browser, seconds=seconds)
    except httpx2.HTTPError as error:
        fix = "Check the address, and that the server runs."
        raise Failure(f"{address} cannot be reached: {error}", reason="Unreachable", fix=fix) from error


async def _keep(address: str, grant: Granted, name: str, project: str) -> None:
    """Check the key, and keep it in a context."""
    async with Client(address, grant.key) as client:
        me = await identity.whoami(client)
    name = name or _named(me, grant, address)
    org = str(me.get("orgName") or grant.org)
    contexts.add(name, Context(address, project or grant.project, org, grant.name), grant.key)
    printing.out(f"Logged in to {address} as {me.get('user', '')}; the context is {name}")


def _named(me: dict[str, Any], grant: Granted, address: str) -> str:
    """A name for the context: the organisation's, unless that is taken by another server."""
    host = re.sub(r"[^A-Za-z0-9._-]+", "-", urlsplit(address).netloc)
    slug = re.sub(r"[^a-z0-9]+", "-", str(me.get("orgName") or grant.org).lower()).strip("-")[:60]
    taken = contexts.load().contexts.get(slug)
    free = taken is None or taken.url == address
    return slug if slug and slug != contexts.LOCAL and free else host
