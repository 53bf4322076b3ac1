"""Do the pages work in a browser, with and without script, light and dark, wide and narrow?"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser
SMALL = ("one", "two", "wrong", "diff", "advise", "recording", "import", "window")

OVERLAPS = """() => {
  const texts = [...document.querySelectorAll('svg text')].filter(t => t.textContent.trim());
  const boxes = texts.map(t => [t.getBoundingClientRect(), t.textContent]);
  const found = [];
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < Math.min(boxes.length, i + 60); j++) {
    const [a, x] = boxes[i], [b, y] = boxes[j];
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 4) found.push(x + ' | ' + y);
  }
  return found;
}"""
OUTSIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_nothing_is_said_asked_or_written_over(opened, name, size, scheme):
    page = opened(name, size, scheme)
    assert page.said == []
    assert [url for url in page.asked if not url.startswith("file://")] == []
    assert page.evaluate(OUTSIDE) <= 0
    if name != "many":
        assert page.evaluate(OVERLAPS) == []


def test_the_slider_reaches_every_decision_both_ways(opened, name):
    page = opened(name)
    steps = page.evaluate("() => steps")
    if not steps:
        assert not page.locator("#tools").is_visible()
        return
    slider, now, said = page.locator("#at"), page.locator("#now"), []
    numbers = range(len(steps)) if len(steps) < 200 else [0, 1, len(steps) // 2, len(steps) - 1]
    for number in [*numbers, *reversed(numbers)]:
        slider.fill(str(number))
        said.append(now.text_content())
        assert steps[number]["rule"] in said[-1] and steps[number]["says"] in said[-1]
        assert page.locator("g.current").get_attribute("id") == steps[number]["anchor"]
    slider.fill("0")
    page.locator("#on").click()
    assert page.locator("#count").text_content() == f"2 of {len(steps)}"
    page.locator("#back").click()
    slider.press("ArrowRight")
    assert page.locator("#count").text_content() == f"2 of {len(steps)}"


def test_an_anchor_opens_its_request(opened):
    page = opened("one", anchor="#r3")
    assert page.locator("#d-r3").get_attribute("open") is not None
    assert page.locator("g.current").get_attribute("id") == "r3"
    page = opened("diff", anchor="#p1-r2")
    assert page.locator("g.current").get_attribute("id") == "p1-r2"


def test_rows_are_reached_and_opened_by_keyboard(opened):
    page = opened("one")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.id") == "r2":
            break
    page.keyboard.press("Enter")
    assert page.locator("#d-r2").get_attribute("open") is not None
    assert page.url.endswith("#r2")


def test_larger_and_smaller(opened):
    page = opened("one")
    width = "() => document.querySelector('svg').getBoundingClientRect().width"
    before = page.evaluate(width)
    page.locator("#in").click()
    assert page.evaluate(width) > 1.2 * before
    page.locator("#out").click()
    page.locator("#out").click()
    assert page.evaluate(width) < before


def test_without_script_the_picture_and_every_decision_are_there(opened):
    page = opened("two", script=False)
    assert page.locator("svg").count() == 2 and not page.locator("#tools").is_visible()
    page.locator("summary").first.click()
    assert page.locator("details[open] td.rule").count() > 0


def test_two_runs_stand_side_by_side_where_there_is_room(opened, browser, files):
    context = browser.new_context(viewport={"width": 1800, "height": 900})
    page = context.new_page()
    page.goto(f"file://{files['diff']}")
    tops = page.evaluate("() => [...document.querySelectorAll('section.run')].map(e => e.getBoundingClientRect().top)")
    assert len(set(tops)) == 1
    context.close()


def test_a_thousand_requests_stay_fluid(opened):
    """By what the browser has done, not by the clock: a step of the slider lays out nothing but a line of text."""
    page = opened("many")
    assert page.locator("svg g[role=listitem]").count() > 900
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def layouts():
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "LayoutCount")

    before = layouts()
    for _ in range(10):
        page.locator("#on").click()
    assert layouts() - before <= 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SMALL)
def test_axe_finds_no_fault(opened, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(opened(name, scheme=scheme)).response["violations"]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found] == []
