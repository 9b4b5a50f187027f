"""`python -m corral.testing.model --port 0`: serve, print `URL=...`, and go on until a signal."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .server import ModelServer


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments and serve."""
    parser = argparse.ArgumentParser(prog="python -m corral.testing.model", description="A scripted model service.")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (%(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0: a free one (%(default)s)")
    parser.add_argument("--rules", type=Path, help="a JSON file of rules, as POST /rules takes them")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a default directive")
    options = parser.parse_args(arguments)
    if wrong := [pair for pair in options.set if "=" not in pair]:
        parser.error(f"--set takes KEY=VALUE, such as delay=0.05, and not {wrong[0]!r}")
    server = ModelServer(**dict(pair.split("=", 1) for pair in options.set))
    if options.rules:
        server.replace_rules(json.loads(options.rules.read_text(encoding="utf-8")))
    try:
        asyncio.run(_serve(server, options.host, options.port))
    except KeyboardInterrupt:
        sys.exit(130)


async def _serve(server: ModelServer, host: str, port: int) -> None:
    async with server.listening(host, port) as url:
        sys.stdout.write(f"URL={url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
