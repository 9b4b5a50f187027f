"""A person with a browser, as far as the pages of a login need one: it reads a form, fills in a key, and follows."""

from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx2


class _Form(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "input" and found.get("name"):
            self.fields[str(found["name"])] = found.get("value") or ""


def decide(address: str, key: str, decision: str) -> httpx2.Response:
    """Open the page, and approve or deny with the key; the last answer, after the browser was sent on."""
    with httpx2.Client(trust_env=False, timeout=30, follow_redirects=False) as browser:
        page = browser.get(address)
        assert page.status_code == 200, page.text
        form = _Form()
        form.feed(page.text)
        target = address.partition("?")[0]
        answer = browser.post(target, data={**form.fields, "key": key, "decision": decision})
        assert answer.status_code in (200, 303), answer.text
        return browser.get(urljoin(target, answer.headers["location"])) if answer.status_code == 303 else answer
