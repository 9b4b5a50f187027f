"""A Postgres server for the tests, made from the machine's own binaries, on a unix socket in a directory of its own.

It is as good as any for what is tested here but for power loss: fsync is off.
"""

import asyncio
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from corral.store.postgres import open_postgres

REMEDY = "the tests need Postgres: apt-get install postgresql"
START_SECONDS = 60


class Server:
    """A running server. Each call of `database` makes a database with all tables, in a few milliseconds."""

    def __init__(self) -> None:
        self.bin = _binaries()
        # Short, as the path of a socket has at most 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        self.account = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        shutil.chown(self.directory, self.account)
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server, and makes the database that others are copied from if it is the first start."""
        data = self.directory / "data"
        if first := not data.exists():
            options = ("--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
            self._run("initdb", f"--pgdata={data}", *options)
        command = [
            self.bin / "postgres",
            "-D",
            data,
            "-k",
            self.directory,
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
        ]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory, **self._identity())
        self._until_ready()
        if first:
            asyncio.run(self._make_template())

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Ends the server: SIGINT in order, SIGQUIT as a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_SECONDS)
            self._process = None

    def close(self) -> None:
        """Ends the server and removes what it wrote."""
        self.stop()
        shutil.rmtree(self.directory)

    def database(self) -> str:
        """The URL of a new database with all tables."""
        return self._create("--template=migrated")

    def empty_database(self) -> str:
        """The URL of a new database without tables."""
        return self._create("--template=template0")

    def psql(self, url: str, statement: str) -> str:
        """Runs a statement and answers with its rows, one a line."""
        return self._run("psql", url, "-tAc", statement)

    async def _make_template(self) -> None:
        async with open_postgres(self._create(name="migrated")):
            pass

    def _create(self, *options: str, name: str = "") -> str:
        name = name or f"test{next(self._numbers)}"
        self._run("createdb", f"--host={self.directory}", "--username=postgres", *options, name)
        return f"postgresql://postgres@/{name}?host={self.directory}"

    def _until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while subprocess.run([self.bin / "pg_isready", "-qh", self.directory], check=False).returncode:
            if time.monotonic() > end or self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"Postgres did not start:\n{(self.directory / 'log').read_text()}")
            time.sleep(0.05)

    def _run(self, program: str, *arguments: str) -> str:
        command = [self.bin / program, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.directory, check=False, **self._identity()
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")
        return done.stdout.strip()

    def _identity(self) -> dict[str, object]:
        # The server refuses to run as root.
        return {"user": self.account, "group": self.account, "extra_groups": []} if os.geteuid() == 0 else {}


def _binaries() -> Path:
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not found and (elsewhere := shutil.which("initdb")):
        found = [Path(elsewhere).parent]
    if not found:
        raise RuntimeError(REMEDY)
    return max(found, key=lambda path: [int(part) for part in path.parent.name.split(".") if part.isdigit()])
