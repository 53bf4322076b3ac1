"""Tests of pages in a browser, with and without JavaScript, light and dark, wide and narrow."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser
SMALL = ("one", "two", "equal", "wrong", "diff", "advise", "recording", "import", "window", "walk_mlx")

OVERLAPS = """() => {
  const covered = t => t.closest('.name') && !t.closest('.names') && t.closest('svg').querySelector('.names.moved');
  const texts = [...document.querySelectorAll('svg text')].filter(t => t.textContent.trim() && !covered(t));
  const boxes = texts.map(t => [t.getBoundingClientRect(), t.textContent, t.closest('svg')]);
  const found = [];
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < Math.min(boxes.length, i + 60); j++) {
    const [a, x, one] = boxes[i], [b, y, other] = boxes[j];
    if (one !== other) continue;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 0.3 * Math.min(a.height, b.height)) found.push(x + ' | ' + y);
  }
  return found;
}"""
DRAWN = """t => {
  const style = getComputedStyle(t), pen = document.createElement('canvas').getContext('2d');
  pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const ink = pen.measureText(t.textContent), line = t.getBoundingClientRect(), scale = t.getScreenCTM().a;
  const foot = t.getStartPositionOfChar(0).matrixTransform(t.getScreenCTM()).y;
  const top = foot - ink.actualBoundingBoxAscent * scale, bottom = foot + ink.actualBoundingBoxDescent * scale;
  return {left: line.left, right: line.right, top, bottom, height: bottom - top};
}"""
"""The box of what is drawn of a text, as wide as its line, whose height has room for any letter."""
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
        page.evaluate("() => { const one = timelines[0]; if (one.places.length) one.go(one.places.length >> 1) }")
        assert page.evaluate(OVERLAPS) == [] and page.evaluate(OUTSIDE) <= 0 and page.said == []


@pytest.mark.parametrize("name", [*SMALL, "walk_llama", "walk_ik"])
def test_no_sign_is_drawn_over_another_at_any_stop(opened, name):
    """Signs of what an event writes, reads and erases, each as large as what is drawn of it."""
    page = opened(name)
    overlaps = OVERLAPS.replace("svg text", "svg .live .sign").replace("t.getBoundingClientRect()", f"({DRAWN})(t)")
    found = page.evaluate(f"""() => (timelines[0].places ?? []).flatMap((_, p) => {{ timelines[0].go(p);
        return ({overlaps})().map(one => p + ': ' + one); }})""")
    assert found == []


@pytest.mark.parametrize("size", ["wide", "narrow"])
@pytest.mark.parametrize("name", ["long", "many", "one"])
def test_labels_of_the_scale_are_whole(opened, name, size):
    """Not cut off by the edge of the drawing."""
    page = opened(name, size)
    outside = page.evaluate("""() => [...document.querySelectorAll('.draw svg .head text')].filter(t => {
        const [a, b] = [t, t.closest('svg')].map(one => one.getBoundingClientRect());
        return a.left < b.left || a.right > b.right; }).map(t => t.textContent)""")
    assert outside == [] and page.locator(".draw svg .head .mid").count() > 2


def stops(told):
    """Return the events of a run that the slider stops at: those of a request that have a sentence."""
    return [k for k, (says, row) in enumerate(zip(told.says, told.walk.rows, strict=False)) if says and row >= 0]


def test_the_slider_reaches_every_sentence_of_every_run_both_ways(opened, files, name):
    page = opened(name)
    runs = files.told[name]
    assert page.evaluate("() => timelines[0].runs.map(r => r.n)") == [len(told.says) for told in runs]
    if not runs:
        assert not page.locator(".tools").is_visible()
        return
    last = int(page.locator(".at").get_attribute("max"))
    assert page.locator(".at").input_value() == str(last)         # the page opens with the complete picture
    places = page.evaluate("() => timelines[0].places")
    assert len(places) == last + 1
    for told, ks in zip(runs, zip(*places, strict=True), strict=True):
        first = {max(0, begin - 1) for begin in told.walk.begins} if len(runs) > 1 else set()   # where a run waits
        assert {*stops(told), len(told.says)} == {*ks} - (first - {*stops(told)})
        assert [*ks] == sorted(ks) and (len(runs) > 1 or len({*ks}) == len(ks))
    numbers = [*range(0, last, 1 if last < 200 else last // 60), last]
    said = {number: walked(page, number, last) for number in numbers}
    assert said == {number: walked(page, number, last) for number in reversed(numbers)}
    for number in numbers[:-1]:
        lines = said[number][1]
        for line, told, k in zip(lines, runs, places[number], strict=True):
            rule, _, sentence = told.says[k].partition(": ") if told.decisions[k] else ("", "", told.says[k])
            text = f"request {told.walk.rows[k]}: {sentence} {rule}".strip() if k in stops(told) else sentence
            assert line.strip().endswith(text)


def walked(page, number, last):
    """Move the slider. Return the count, the sentences and the marks."""
    page.locator(".at").fill(str(number))
    count = page.locator(".count").text_content()
    assert count == (f"end, {last} events" if number == last else f"{number + 1} of {last}")
    state = """() => [...document.querySelectorAll('svg g[role=listitem]')].map(g =>
        ['current', 'later', 'running', 'alive'].map(one => +g.classList.contains(one)).join('')).join()"""
    return count, page.locator(".event span").all_text_contents(), page.evaluate(state)


def test_the_slider_moves_by_keyboard(opened, files):
    page = opened("one")
    slider, count = page.locator(".at"), page.locator(".count")
    (told,) = files.told["one"]
    rows = [told.walk.rows[k] for k in stops(told)]
    slider.press("Home")
    slider.press("ArrowRight")
    assert count.text_content() == f"2 of {len(rows)}"
    page.locator(".on").click()
    page.locator(".on").click()
    page.locator(".back").click()
    assert count.text_content() == f"3 of {len(rows)}"
    for key, request in (("PageDown", 1), ("PageDown", 2), ("PageDown", 3), ("PageUp", 2)):
        slider.press(key)
        assert count.text_content() == f"{rows.index(request) + 1} of {len(rows)}"
    assert slider.get_attribute("aria-valuetext").startswith("request 2: ")


def test_a_loss_links_to_the_event_that_lost_it(opened):
    from playwright.sync_api import expect

    page = opened("one", anchor="#r3")
    page.locator("#d-r3 a[href^='#e']").first.click()
    expect(page.locator(".event")).to_have_text("request 2: entry of 103 tokens removed")    # after the hash change
    source = page.locator("#d-r3 a[href^='https']").first.get_attribute("href")
    assert source.startswith("https://github.com/ggml-org/llama.cpp/blob/")
    assert "--cache-ram 100" in page.locator("#d-r3").text_content()


def test_why_stands_beside_the_picture_where_there_is_room_and_follows(opened):
    for size, beside in (("wide", True), ("narrow", False)):
        page = opened("one", size)
        boxes = page.evaluate("() => ['.draw', '.why'].map(one => document.querySelector(one).getBoundingClientRect())"
                              ".map(one => [one.left, one.right, one.top, one.bottom])")  # fmt: skip
        (_, right, top, bottom), (left, _, high, _) = boxes
        assert (left >= right and high == top) if beside else high >= bottom
        shown = page.locator("details.shown")
        page.evaluate("timelines[0].go(timelines[0].places.findIndex(([k]) => k >= timelines[0].runs[0].d.begins[1]))")
        assert shown.get_attribute("id") == "d-r1" and shown.get_attribute("open") is not None
        page.locator("#r3 text").first.click()
        assert shown.get_attribute("id") == "d-r3"
        assert page.locator(".why > details:visible").count() == (1 if beside else 4)


def test_two_runs_are_walked_in_step_and_the_first_difference_is_reached(opened):
    page = opened("diff")
    page.locator(".differ").click()
    lines = page.locator(".event span").all_text_contents()
    assert "LC-PC-LOAD.TAKE" in lines[0] and "LC-PC-LOAD.CLONE" in lines[1]
    current = [page.locator(f"section.run:nth-child({n}) g.current") for n in (1, 2)]
    assert [one.get_attribute("id") for one in current] == ["r2", "p1-r2"]
    assert page.locator(".event.apart").count() == 1 and page.locator("rect.first").count() == 2
    page.locator(".back").click()
    assert page.locator(".event.apart").count() == 0
    for place in range(20, int(page.locator(".at").get_attribute("max")), 7):
        page.locator(".at").fill(str(place))
        ids = [one.get_attribute("id") for one in current]
        assert ids[1] == f"p1-{ids[0]}"


def test_print_shows_everything(opened):
    page = opened("one", scheme="dark")
    page.evaluate("timelines[0].go(40)")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("g.later, g.live").count() == 0 and page.locator(".why > details[open]:visible").count() == 4
    assert not page.locator(".tools").is_visible()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 10_000
    assert page.locator(".count").text_content().startswith("41 of ")


def test_an_anchor_opens_its_request(opened):
    page = opened("one", anchor="#r3")
    assert page.locator("#d-r3").get_attribute("open") is not None
    assert page.locator("g.chosen").get_attribute("id") == "r3"
    page = opened("diff", anchor="#p1-r2")
    assert page.locator("section.run:nth-child(2) g.chosen").get_attribute("id") == "p1-r2"
    page = opened("one", anchor="#e99")
    assert page.evaluate("timelines[0].places[+timelines[0].at.value][0]") >= 99


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
    width = "() => document.querySelector('.draw svg').getBoundingClientRect().width"
    before = page.evaluate(width)
    page.locator(".in").click()
    assert page.evaluate(width) > 1.2 * before
    page.locator(".out").click()
    page.locator(".out").click()
    assert page.evaluate(width) < before


PLACES = """() => ['.head', '.names'].map(one => document.querySelector(one)).map(one => one
  && one.checkVisibility() && one.querySelector('.cover').getBoundingClientRect())
  .map(one => one && [one.left, one.top].map(Math.round))"""


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_names_of_lanes_and_requests_stay_when_a_picture_is_scrolled(opened, size):
    page = opened("many", size)
    box = page.locator(".draw").first
    edge = box.evaluate("e => e.getBoundingClientRect().left + e.clientLeft")
    text = page.locator("#r40 .name text").first.text_content().split(" ")[0]
    page.evaluate("timelines[0].size(2)")                                     # wider than its box
    for zoomed in (False, True):
        if zoomed:
            page.locator(".in").click()
        box.evaluate("e => e.scrollTo(0, 0)")
        page.wait_for_function("() => !document.querySelector('.head.moved')")
        assert not page.locator(".head .cover").is_visible()
        box.evaluate("e => e.scrollTo(60, 3000)")
        page.wait_for_function("() => document.querySelector('.head.moved') && document.querySelector('.names.moved')")
        top = box.evaluate("e => e.getBoundingClientRect().top + e.clientTop")
        (_, high), (left, _) = page.evaluate(PLACES)
        assert abs(high - top) <= 1 and abs(left - edge) <= 1
        words = page.locator(".head text").all_text_contents()
        assert words[0] == "slot" and "prompt" in words and "cache" in words and "40" in words
        stands = page.locator(".names .name").nth(40)
        assert stands.text_content().split(" ")[0] == text == "#40"
        assert stands.bounding_box()["x"] >= edge
    assert page.evaluate(OUTSIDE) <= 0


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_marks_of_the_slider_stand_apart(opened, size):
    page = opened("many", size)
    gaps = page.evaluate("""() => ['.losses', '.requests'].flatMap(name => {
        const boxes = [...document.querySelectorAll(name + ' button')].map(e => e.getBoundingClientRect());
        return boxes.slice(1).map((box, i) => box.left - boxes[i].right); })""")
    assert len(gaps) > 10 and min(gaps) >= 0


def test_a_phone_shows_the_lanes_first(opened):
    page = opened("many", "narrow")
    lane = page.evaluate("() => document.querySelector('#r3 .block').getBoundingClientRect().left")     # of slot 0
    cover = page.locator(".names .cover").evaluate("e => e.getBoundingClientRect().right")
    assert 0 <= lane - cover < 20
    assert opened("many").locator(".draw").evaluate("e => e.scrollLeft") == 0


def test_a_phone_shows_where_the_first_difference_is(opened):
    page = opened("diff", "narrow")
    page.wait_for_function("() => document.querySelector('.names.moved')")
    label, cover = page.evaluate("""() => ['.first + text', '.names .cover'].map(
        one => document.querySelector(one).getBoundingClientRect())
        .map((box, i) => i ? box.right : box.left)""")
    assert label >= cover


@pytest.mark.parametrize("name", ["two", "wrong", "diff"])
def test_every_run_of_a_page_says_why_from_the_start(opened, name):
    page = opened(name)
    runs = page.locator("section.run").count()
    assert runs > 1 and page.locator("section.run details.shown[open]:visible").count() == runs


def test_without_script_the_picture_and_every_decision_are_there(opened):
    page = opened("two", script=False)
    assert page.locator(".draw svg").count() == 2 and not page.locator(".tools").is_visible()
    page.locator("summary").first.click()
    assert page.locator("details[open] .decisions:visible > li").count() > 0


def test_two_runs_stand_side_by_side_where_there_is_room(opened, browser, files):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"file://{files['diff']}")
    page.wait_for_function("() => 'ready' in document.body.dataset")
    tops = page.evaluate("() => [...document.querySelectorAll('.draw')].map(e => e.getBoundingClientRect().top)")
    assert len(tops) == 2 and len(set(tops)) == 1
    context.close()


def test_a_thousand_requests_stay_fluid(opened):
    """Measured by the browser's work, not by time: a step of the slider lays out the page a few times at most."""
    page = opened("many")
    page.evaluate("timelines[0].go(timelines[0].places.length >> 1)")
    assert page.locator("svg g[role=listitem]").count() > 900
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def layouts():
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "LayoutCount")

    before = layouts()
    for _ in range(10):
        page.locator(".on").click()
    assert layouts() - before <= 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SMALL)
def test_axe_finds_no_fault(opened, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(opened(name, scheme=scheme)).response["violations"]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found] == []
