"""Time as the wire writes it: UTC, RFC 3339, and durations such as `90s`, `8m`, `1h30m`."""

import re
from datetime import UTC, datetime, timedelta

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def now() -> datetime:
    """The time of day in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """`2026-01-31T09:00:00.250Z`: UTC with milliseconds, which sorts as text."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_duration(text: str) -> timedelta:
    """The length of time that text such as `90s` or `1h30m` names. Raises ValueError with the rule."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(
            f"{text!r} is not a duration; write a number and a unit (ms, s, m, h, d), such as 90s or 1h30m"
        )
    return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))


def parse_moment(text: str) -> datetime:
    """The moment that RFC 3339 text names, in UTC. Raises ValueError when it has no offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an RFC 3339 time, such as 2026-01-31T09:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset; end it with Z for UTC or with an offset such as +02:00")
    return moment.astimezone(UTC)
