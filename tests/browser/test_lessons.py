"""Tests of the page of lessons in a browser: no console messages, no overlapping text, light and dark, wide and narrow,
on paper, and by keyboard."""

from __future__ import annotations

import pytest

from cachesim.cli.main import main
from cachesim.tools.lessons import lesson_files
from tests.browser.conftest import SIZES, opening

pytestmark = pytest.mark.browser
LESSONS = [*lesson_files.lessons(), lesson_files.quiz()]
both = pytest.mark.parametrize("scheme", ["light", "dark"])

OVERLAPS = """() => {
  const found = [];
  const covered = t => t.closest('.name') && !t.closest('.names') && t.closest('svg').querySelector('.names.moved');
  const shown = e => { const r = e.getBoundingClientRect(); return r.width && r.height && e.checkVisibility(); };
  const check = (boxes, wide, high) => {
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, x] = boxes[i], [b, y] = boxes[j];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > wide
          && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > high) found.push(x + ' | ' + y);
    }};
  const boxes = all => all.filter(shown).map(e => [e.getBoundingClientRect(), e.textContent.trim().slice(0, 40)]);
  for (const svg of document.querySelectorAll('svg'))
    check(boxes([...svg.querySelectorAll('text')].filter(t => t.textContent.trim() && !covered(t))), 1, 4);
  for (const part of document.querySelectorAll('article, details'))
    check(boxes([...part.children]), 1, 1);
  for (const row of document.querySelectorAll('tr')) check(boxes([...row.children]), 1, 1);
  return found;
}"""
OUTSIDE = """() => {
  const room = document.documentElement.clientWidth, scrolls = e => getComputedStyle(e).overflowX === 'auto';
  const all = [...document.querySelectorAll('p, h1, h2, h3, li, pre, table, figure, figcaption, summary, code')];
  return all.filter(e => e.checkVisibility() && !e.closest('pre code')
    && e.getBoundingClientRect().right > room + 1 && !scrolls(e.closest('table, pre, figure') || document.body))
    .map(e => e.textContent.slice(0, 60));
}"""
OPEN = "() => document.querySelectorAll('details').forEach(one => one.open = true)"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    found = tmp_path_factory.mktemp("lessons") / "lessons.html"
    assert main(["lesson", "--html", str(found)]) == 0
    return found


@pytest.fixture
def shown(browser, file):
    """Return a function that opens the page of lessons. ``page.said``: console messages. ``page.asked``: network
    requests."""
    with opening(browser) as open_file:
        yield lambda *given, **more: open_file(file, *given, **more)


@both
@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_said_asked_or_written_over(shown, size, scheme):
    page = shown(size, scheme)
    assert page.locator("article").count() == len(LESSONS) and page.locator("article .draw svg").count() >= 12
    for _ in ("closed", "open"):
        assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(OVERLAPS) == []
        page.evaluate(OPEN)
    assert page.said == []
    assert [url for url in page.asked if not url.startswith("file://")] == []


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.anchor)
def test_an_anchor_leads_to_its_lesson(shown, lesson):
    page = shown(anchor=f"#{lesson.anchor}")
    top = f"() => document.getElementById('{lesson.anchor}').getBoundingClientRect().top"
    assert abs(page.evaluate(top)) < 2 or lesson.anchor == "lesson-0"
    assert page.locator(f"#{lesson.anchor} h1").inner_text() == lesson.title


def test_the_lessons_are_read_by_their_links(shown):
    page = shown("narrow")
    page.locator("nav a").first.click()
    for one in LESSONS[1:]:
        page.locator(f"#{LESSONS[LESSONS.index(one) - 1].anchor} .ways a").first.click()
        assert page.url.endswith(f"#{one.anchor}")
    page.locator("#quiz .ways a").click()
    assert page.url.endswith("#contents") and page.evaluate("() => scrollY") < 50


def test_an_answer_is_opened_by_keyboard_and_without_script(shown):
    page = shown(script=False, anchor="#lesson-2")
    first = page.locator("#lesson-2 details").first
    assert not first.locator("pre").is_visible()
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert first.locator("pre").is_visible() and "cachesim run" in first.inner_text()


@both
def test_answers_are_on_paper_and_nothing_is_cut_off(shown, scheme):
    page = shown(scheme=scheme)
    page.set_viewport_size({"width": 700, "height": 1000})
    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert [one for one in page.locator("details pre").all() if not one.is_visible()] == []
    cut = "() => [...document.querySelectorAll('pre, figure')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert page.evaluate(cut) == 0
    assert page.evaluate(OVERLAPS) == []


@both
def test_axe_finds_no_fault(shown, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = shown(scheme=scheme)
    page.evaluate(OPEN)
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found] == []


def test_a_step_moves_the_timeline_of_its_lesson(shown):
    for size in SIZES:
        page = shown(size, anchor="#lesson-5")
        step = page.locator("#lesson-5 .step").nth(3)
        step.scroll_into_view_if_needed()
        step.click()
        assert page.locator("#lesson-5 .event").text_content().startswith("request 2: ")
        assert page.locator("#lesson-5 .step.reached").count() == 1
        assert page.locator("#lesson-5 .draw").first.is_visible()
        page.locator("#lesson-5 .tabs button", has_text="copied").click()
        assert page.locator("#lesson-5 section.run:visible").count() == 1


def test_scrolling_to_a_step_moves_the_timeline(shown):
    page = shown(anchor="#lesson-3")
    step = page.locator("#lesson-3 .step").nth(1)
    step.evaluate("e => scrollBy(0, e.getBoundingClientRect().top - innerHeight * 0.6)")
    page.wait_for_function("() => document.querySelectorAll('#lesson-3 .step')[1].classList.contains('reached')")
    assert "window rows 276 to 339 erased" in page.locator("#lesson-3 .event").text_content()
