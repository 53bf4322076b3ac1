"""Tests of the playground's server: it refuses every request that its own page would not send."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from hashlib import sha256

import pytest

from tests.unit.tools.playground.asgi import HEADERS, HOST, got, lifespan, posted, request

pytest.importorskip("starlette", reason="the extra `playground` is not installed")

from cachesim.tools.playground.app import BODY, application, policy
from cachesim.tools.playground.page import Page
from cachesim.tools.playground.simulator import QueueFull

PAGE = Page("<p>page</p>", ("script", "style"))
CASE = {"line": "A5/A", "model": "A", "flags": "", "profiles": ["x@1"]}


class Recorded:
    """Stand-in for the simulator that records what it is asked."""

    def __init__(self, error=None):
        self.asked, self.error, self.life = [], error, []

    async def start(self):
        self.life.append("started")

    async def close(self):
        self.life.append("closed")

    async def ask(self, fields):
        self.asked.append(fields)
        if self.error:
            raise self.error
        return {"html": "x"}


@pytest.fixture
def simulator():
    return Recorded()


@pytest.fixture
def app(simulator):
    return application(8080, PAGE, simulator)


def test_the_page_and_a_case(app, simulator):
    page = got(app)
    assert (page.status, page.body) == (200, b"<p>page</p>") and page.headers["content-type"].startswith("text/html")
    found = posted(app, CASE)
    assert (found.status, found.data, simulator.asked) == (200, {"html": "x"}, [CASE])
    assert posted(app, CASE, {**HEADERS, "host": "localhost:8080", "origin": "http://localhost:8080"}).status == 200


@pytest.mark.parametrize("host", [
    "", "evil.example", "evil.example:8080", "127.0.0.1", "127.0.0.1:8081", "127.0.0.2:8080", "[::1]:8080",
    "0.0.0.0:8080", "127.0.0.1:8080.evil.example", "user@127.0.0.1:8080",
])  # fmt: skip
def test_a_foreign_host_is_refused(app, simulator, host):
    for found in (got(app, headers={**HEADERS, "host": host}), posted(app, CASE, {**HEADERS, "host": host}),
                  posted(app, CASE, {**HEADERS, "host": host, "origin": f"http://{host}"})):  # fmt: skip
        assert (found.status, found.body) == (421, b"unknown host")
    assert simulator.asked == []


def test_a_second_or_missing_host_is_refused(app):
    assert got(app, headers=[("host", HOST), ("host", "evil.example")]).status == 421
    assert got(app, headers=[]).status == 421


@pytest.mark.parametrize("origin", [None, "null", "", "http://evil.example", "https://127.0.0.1:8080", "http://127.0.0.1",
                                    "http://127.0.0.1:8081", "http://localhost:8080", f"http://{HOST}/"])  # fmt: skip
def test_a_foreign_origin_is_refused_before_the_body_is_read(app, simulator, origin):
    headers = {name: value for name, value in {**HEADERS, "origin": origin}.items() if value is not None}
    found = posted(app, CASE, headers)
    assert (found.status, found.read, simulator.asked) == (403, 0, [])


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_a_form_could_send_is_refused(app, simulator, kind):
    assert posted(app, CASE, {**HEADERS, "content-type": kind}).status == 415
    assert simulator.asked == []


@pytest.mark.parametrize(("body", "says"), [
    (b"", "empty"), (b"x", "JSON"), (b"\xff\xfe", "UTF-8"), (b"[1]", "object"), (b"null", "object"),
    (b"1" * 5000, "digits"), ({"line": "A5", "file": "/etc/passwd"}, "unknown key"),
    (b"[" * 10_000, "nested deeper"), (b'{"line": ' + b"[" * 40 + b"]" * 40 + b"}", "nested deeper"),
    (b'{"line": NaN}', "NaN"), ({"line": 5}, "line: expected a string"),
    ({"profiles": ["a", None]}, "profiles[1]"), ({"profiles": "a"}, "profiles: expected a list"),
])  # fmt: skip
def test_a_body_that_is_not_a_case_is_refused(app, simulator, body, says):
    found = posted(app, body)
    assert found.status == 400 and says in found.body.decode() and simulator.asked == []
    assert len(found.body) < 1000


def test_a_large_body_is_refused_before_it_is_parsed(app, simulator):
    found = posted(app, {"line": "A" * 100_000})
    assert (found.status, found.body, simulator.asked) == (413, b"at most 32768 bytes are allowed", [])
    assert found.read <= BODY // 4096 + 1                        # the rest is not read


def test_a_field_of_another_type_is_refused_with_a_sentence(app):
    assert posted(app, {"line": 5}).body == b"line: expected a string, found 5"


def test_the_longest_body_is_read_to_its_end(app, simulator):
    body = b'{"line": "A5"}'.ljust(BODY)
    assert posted(app, body).data == {"html": "x"} and simulator.asked == [{"line": "A5"}]
    found = posted(app, body + b" ")
    assert (found.status, found.headers["content-type"]) == (413, "text/plain; charset=utf-8")


def test_the_head_of_the_page_is_served_and_refused_like_the_page(app):
    assert got(app, method="HEAD").status == 200
    assert got(app, method="HEAD", headers={"host": "evil.example"}).status == 421


def test_a_refusal_states_its_cause(app):
    without = {"host": HOST, "origin": f"http://{HOST}"}
    twice = [*HEADERS.items(), ("origin", f"http://{HOST}")]
    refused = [got(app, headers=[]), posted(app, CASE, {"host": HOST}), posted(app, CASE, twice),
               posted(app, CASE, without)]  # fmt: skip
    assert [(found.status, found.body.decode()) for found in refused] == [
        (421, "unknown host"), (403, "foreign origin"), (403, "foreign origin"), (415, "expected application/json"),
    ]  # fmt: skip


def test_the_worker_lives_as_long_as_the_application(app, simulator):
    assert asyncio.run(lifespan(app)) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert simulator.life == ["started", "closed"]


def test_other_paths_and_methods_do_not_exist(app, simulator):
    for path in ("/run", "/../etc/passwd", "//etc/passwd", "/static/x", "/favicon.ico", "/examples/x", "/%2e%2e/x"):
        assert got(app, path).status in (404, 405)
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "CONNECT"):
        assert got(app, method=method).status == 405
    for method in ("OPTIONS", "GET", "PUT"):
        found = got(app, "/run", method=method)
        assert found.status == 405 and "access-control-allow-origin" not in found.headers
    assert simulator.asked == []


def test_a_full_queue_is_reported(simulator):
    simulator.error = QueueFull()
    found = posted(application(8080, PAGE, simulator), CASE)
    assert (found.status, found.body) == (503, b"busy")


def test_fifty_requests_at_once(simulator):
    async def flood():
        app = application(8080, PAGE, simulator)
        return await asyncio.gather(*(request(app, "POST", "/run", b'{"line": "A5"}') for _ in range(50)))

    assert [one.status for one in asyncio.run(flood())] == [200] * 50


def test_a_case_ends_when_its_page_is_closed():
    class Endless(Recorded):
        """Stand-in for the simulator whose cases never end by themselves."""

        async def ask(self, fields):
            self.asked.append(fields)
            leaving.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.life.append("case ended")
                raise

    async def close_page():
        app = application(8080, PAGE, simulator)
        return await request(app, "POST", "/run", b'{"line": "A5"}', leaving=leaving)

    simulator, leaving = Endless(), asyncio.Event()
    asyncio.run(asyncio.wait_for(close_page(), 20))
    assert simulator.asked == [{"line": "A5"}] and simulator.life == ["case ended"]


def test_every_response_has_the_strict_headers(app):
    for found in (got(app), posted(app, CASE), got(app, "/x"), posted(app, b""), got(app, headers={"host": "x"}),
                  posted(app, CASE, {"host": HOST})):  # fmt: skip
        assert {name: value for name, value in found.headers.items() if not name.startswith("content-")} == {
            "cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
            **({"allow": found.headers["allow"]} if "allow" in found.headers else {}),
        }  # fmt: skip
        assert found.headers["content-security-policy"] == policy(PAGE)


def test_the_policy_allows_the_script_and_the_style_of_the_page_only():
    script, style = (b64encode(sha256(text).digest()).decode() for text in (b"script", b"style"))
    assert dict(rule.split(" ", 1) for rule in policy(PAGE).split("; ")) == {
        "default-src": "'none'", "script-src": f"'sha256-{script}'", "style-src": f"'sha256-{style}'",
        "connect-src": "'self'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'",
        "frame-ancestors": "'none'",
    }  # fmt: skip
