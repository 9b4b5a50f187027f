"""A browser stand-in that approves a login: approve.py PAGE_URL KEY [USER_CODE]. Standard library only."""

import html
import http.cookiejar
import re
import sys
import urllib.parse
import urllib.request


def main(page: str, key: str, user_code: str = "") -> None:
    """Open the page, fill in its form, press Approve, and go where it sends the browser."""
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
    with browser.open(page, timeout=20) as answer:
        shown = answer.read().decode()
    hidden = re.findall(r'<input[^>]*type="hidden"[^>]*>', shown)
    fields = {attribute(field, "name"): attribute(field, "value") for field in hidden}
    fields |= {"key": key, "decision": "approve"} | ({"user_code": user_code} if user_code else {})
    origin = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(page))
    body = urllib.parse.urlencode(fields).encode()
    request = urllib.request.Request(page.partition("?")[0], body, {"Origin": origin})
    with browser.open(request, timeout=20) as answer:
        answer.read()


def attribute(field: str, name: str) -> str:
    """The value of an attribute of a tag."""
    found = re.search(rf'\b{name}="([^"]*)"', field)
    return html.unescape(found[1]) if found else ""


if __name__ == "__main__":
    main(*sys.argv[1:])
