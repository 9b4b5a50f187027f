"""The scripted model service in a process of its own, which lives on when the server under test is killed."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_START_SECONDS = 30.0


@contextmanager
def model_process(**defaults: object) -> Iterator[str]:
    """Start the process, give its URL, and kill it at the end. Keyword arguments are default directives.

    Raises RuntimeError when it does not say its URL within 30 seconds.
    """
    command = [sys.executable, "-m", "corral.testing.model", "--port", "0"]
    for key, value in defaults.items():
        command += ["--set", f"{key}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        try:
            yield _url(process)
        finally:
            process.kill()


def _url(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None
    output, end = b"", time.monotonic() + _START_SECONDS
    while not output.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
        more = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not more:
            raise RuntimeError(f"the model server did not start; it said {output!r}")
        output += more
    return output.decode().strip().removeprefix("URL=")
