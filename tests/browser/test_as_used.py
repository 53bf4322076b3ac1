"""Tests of every kind of page as people use it: at two widths, light and dark, by keyboard, with axe, and with the
numbers of `--json`. A page is known by its name in ``pages``, or is the page of lessons or the playground."""

from __future__ import annotations

import io
import json
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout

import pytest

from cachesim.cli.main import main
from tests.browser.conftest import SIZES, opening
from tests.browser.pages import PAGES

pytestmark = pytest.mark.browser

KINDS = ("one", "wrong", "diff", "fuzz", "import", "bodies", "advise", "recording", "lessons", "playground")
each_kind = pytest.mark.parametrize("name", KINDS)

CUT = """() => {
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  const inside = e => { for (let p = e.parentElement; p; p = p.parentElement) if (scrolls(p)) return p; };
  const shown = e => e.checkVisibility({ visibilityProperty: true }) && e.getBoundingClientRect().width > 0;
  const name = e => e.tagName + '.' + e.className + ': ' + e.textContent.trim().slice(0, 40);
  const out = [...document.body.querySelectorAll('*:not(svg *):not(option):not(optgroup)')].filter(e => shown(e)
    && !inside(e) && e.getBoundingClientRect().right > innerWidth + 0.5).map(name);
  if (document.documentElement.scrollWidth > innerWidth) out.push('the page: ' + document.documentElement.scrollWidth);
  return out;
}"""
"""Elements beyond the right edge, except in regions that scroll."""
SILENT = """() => [...document.querySelectorAll('body *:not(svg *)')].filter(e => e.checkVisibility()
  && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1
  && e.tabIndex < 0 && !['TEXTAREA', 'INPUT'].includes(e.tagName)).map(e => e.tagName + '.' + e.className)"""
"""Regions that scroll to the side and that the keyboard cannot reach."""
CONTROLS = """() => {
  const what = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
  const all = [...document.querySelectorAll(what)].filter(e => !e.disabled && e.tabIndex >= 0
    && e.checkVisibility({ visibilityProperty: true }));
  all.forEach((e, i) => { e.dataset.control = i; });
  return all.length;
}"""
FOCUSED = """() => {
  const e = document.activeElement, s = getComputedStyle(e);
  return [e.dataset.control ?? null, e.tagName + '#' + e.id + '.' + (e.getAttribute('class') ?? ''),
          s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0];
}"""
ROWS = """() => [...document.querySelectorAll('section.run')].map(s => [s.dataset.run,
  [...s.querySelectorAll('g[role=listitem]')].map(g => [g.querySelector('title').textContent,
    [...g.querySelectorAll('.bar .o-again')].map(r => r.querySelector('title').textContent)])])"""


@pytest.fixture
def used(browser, files, playground):
    """Return a function that opens a kind of page."""
    with opening(browser) as open_file:
        yield lambda name, *given, **more: open_file(
            playground if name == "playground" else files[name], *given, **more)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@each_kind
def test_nothing_is_cut_nothing_is_logged_and_axe_is_clean(used, name, size, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = used(name, size, scheme)
    for opened in (False, True):
        if opened:
            page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate(CUT) == []
        assert page.evaluate(SILENT) == []
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found] == []
    assert page.said == []
    assert [url for url in page.asked if not url.startswith(("file://", "http://127.0.0.1", "data:"))] == []


@pytest.mark.parametrize("size", SIZES)
@each_kind
def test_every_control_is_reached_by_keyboard_and_shows_its_focus(used, name, size):
    page = used(name, size)
    number = page.evaluate(CONTROLS)
    reached, unmarked = set(), []
    for _ in range(number + 30):
        page.keyboard.press("Tab")
        control, label, marked = page.evaluate(FOCUSED)
        if control is not None:
            reached.add(int(control))
            unmarked += [] if marked else [label]
    assert sorted(set(range(number)) - reached) == [] and unmarked == []


@each_kind
def test_a_timeline_is_stepped_by_keys(used, name):
    page = used(name)
    for root in page.locator(".timeline").all()[:3]:
        slider = root.locator("input[type=range]")
        if not slider.is_visible():
            assert name in ("recording", "advise", "import", "bodies"), "a timeline without a slider"
            continue
        slider.focus()
        slider.press("Home")
        assert slider.input_value() == "0"
        before = root.locator(".event").inner_text()
        slider.press("ArrowRight")
        assert slider.input_value() == "1"
        slider.press("Shift+ArrowRight")
        assert int(slider.input_value()) > 1 and root.locator(".event").inner_text() != before
        slider.press("End")
        assert slider.input_value() == slider.get_attribute("max")


def printed(line):
    """Return what a command line prints as JSON."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        main([*shlex.split(line), "--json"])
    return json.loads(out.getvalue())


def drawn(page):
    """Return the rule set of each run of a page, and of each of its requests: tokens reused, evaluated, evaluated
    again."""
    found = []
    for profile, rows in page.evaluate(ROWS):
        requests = {}
        for title, again in rows:
            counts = re.search(r"request (\d+).*?(\d+) reused, (\d+) evaluated", title)
            number, reused, evaluated = map(int, counts.groups())
            lost = sum(int(re.match(r"(\d+) to (\d+): (\d+) again", one)[3]) for one in again)
            requests[number] = (reused, evaluated, lost)
        found.append((profile, requests))
    return found


def run_numbers(run):
    """Return the same numbers of a run as JSON."""
    lost = {}
    for charge in run["lost"]:
        lost[charge["request"]] = lost.get(charge["request"], 0) + charge["tokens"]
    return {one["i"]: (one["cache_n"], one["prompt_n"], lost.get(one["i"], 0)) for one in run["requests"]}


def totals(runs):
    """Return the evaluated and re-evaluated tokens of the first run."""
    return tuple(sum(row[column] for row in runs[0][1].values()) for column in (1, 2))


@pytest.mark.parametrize("name", ["one", "diff", "fuzz", "two"])
def test_the_numbers_of_runs_are_those_of_json(used, name):
    data = printed(PAGES[name])
    if name == "fuzz":
        data = printed(data["failures"][0]["command"].removeprefix("cachesim "))
    runs = data["runs"] if "runs" in data else [data["a"], data["b"]]
    expected = {run["profile"]: run_numbers(run) for run in runs}
    shown = drawn(used(name))
    assert shown and all(expected[profile] == requests for profile, requests in shown)


def test_the_numbers_of_a_request_are_those_of_json(used):
    expected = {one["profile"]: (one["cache_n"], one["prompt_n"]) for one in printed(PAGES["wrong"])["why"]}
    number = int(PAGES["wrong"].rpartition(" ")[2])
    assert all(expected[profile] == requests[number][:2] for profile, requests in drawn(used("wrong")))


def test_the_numbers_of_request_bodies_advice_and_recordings_are_those_of_json(used):
    bodies = printed(PAGES["bodies"])["bodies"]["simulation"]
    assert totals(drawn(used("bodies"))) == (bodies["tokens"] - bodies["reused"], bodies["not_kept"])
    base = printed(PAGES["advise"])["advise"][0]["base"]
    assert totals(drawn(used("advise")))[0] == base["evaluated"]
    assert len(drawn(used("recording"))[0][1]) >= printed(PAGES["recording"])["steps"]
