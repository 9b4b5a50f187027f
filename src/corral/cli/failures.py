"""The one error of the command line: what to print, and the exit code.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 a bug, 4 out of time, 130 interrupted.
"""

from collections.abc import Sequence

REFUSED, USAGE, BUG, TIMED_OUT, INTERRUPTED = 1, 2, 3, 4, 130


class Failure(Exception):
    """Ends the command. `causes` are pairs of field and message; without a message nothing is shown."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        fix: str = "",
        causes: Sequence[tuple[str, str]] = (),
        request: str = "",
        code: int = REFUSED,
    ) -> None:
        super().__init__(message)
        self.message, self.reason, self.fix = message, reason, fix
        self.causes, self.request, self.code = causes, request, code

    def lines(self) -> list[str]:
        """What to show on stderr."""
        if not self.message:
            return []
        label = f"Error ({self.reason})" if self.reason else "Error"
        lines = [f"{label}: {self.message}"]
        lines += [
            f"  {field}: {message}" for field, message in self.causes if f"{field}: {message}" not in self.message
        ]
        lines += [f"fix: {self.fix}"] if self.fix else []
        lines += [f"request: {self.request}"] if self.request else []
        return lines


def usage(message: str, fix: str = "") -> Failure:
    """The command was given something that cannot be right (exit code 2)."""
    return Failure(message, fix=fix, code=USAGE)
