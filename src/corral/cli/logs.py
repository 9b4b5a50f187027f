"""What a server inside this program logs, on stderr beside everything else for people."""

import logging

from corral.cli import printing

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _Lines(logging.Handler):
    """Writes records as lines that cannot steer the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        printing.err(self.format(record))


def shown(level: int) -> None:
    """Show our own records of this level and above from now on, and warnings of libraries."""
    handler = _Lines()
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("corral").setLevel(level)
