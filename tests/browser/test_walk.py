"""Tests that the page at event k shows the contents of a run stopped at event k, in words and at the right place."""

from __future__ import annotations

import re

import pytest

import cachesim
from cachesim.tools.picture.svg import RunDrawing
from cachesim.tools.run.pictured_runs import run_pictured
from tests.browser.pages import LINES
from tests.unit.tools.picture.cut import cut

pytestmark = pytest.mark.browser

SHOWN = """k => {
  const run = timelines[0].runs[0];
  run.go(k, k - 1);
  const out = {owners: {}, later: [], running: [], entries: [], rows: {}};
  for (const slot of Object.keys(run.d.slots)) out.owners[slot] = run.held(slot, k).owner ?? null;
  run.rows.forEach((g, i) => {
    for (const name of ['later', 'running']) if (g.classList.contains(name)) out[name].push(i);
    const live = g.querySelector('.live'), one = (what, name) => [...(live?.querySelectorAll(what) ?? [])]
      .filter(e => !e.closest('.erased') && !(e.closest('.written') && e.matches('.rows, .win'))).map(e =>
      [e.parentNode.querySelector('title').textContent, e.getAttribute(name)]);
    out.rows[i] = {rows: one('.rows', 'd'), window: one('.win', 'd'), dot: one('.dot', 'cx'), marks: one('.mark', 'd'),
                   veil: g.querySelector('.veil')?.getAttribute('x') ?? null};
  });
  out.entries = [...run.now.querySelectorAll('rect.full')].map(e => e.parentNode.querySelector('title').textContent);
  out.current = run.svg.querySelector('g.current')?.id ?? null;
  return out;
}"""

AT = "text => { const t = timelines[0], r = t.runs[0]; t.event(r, r.log.findIndex((_, k) => r.text(k) === text)); }"
"""Go to the event with a sentence."""


def numbers(text):
    return [int(one) for one in re.findall(r"\d+", text)]


def positions(bars):
    """Return the positions that bars of rows name."""
    return frozenset(pos for title, _ in bars for low, high in [numbers(title)] for pos in range(low, high + 1))


def check_slot(row, holds, px):
    """Check that the memory drawn below a request is that of a slot, in words and by position."""
    assert positions(row["rows"]) == holds.rows and positions(row["window"]) == holds.window
    assert [numbers(title)[0] for title, _ in row["dot"]] == ([] if holds.state is None else [holds.state])
    assert [tuple(numbers(title)) for title, _ in row["marks"]] == [tuple(one) for one in holds.checkpoints]
    for _, x in row["dot"]:
        assert float(x) == pytest.approx(px(holds.state), abs=0.2)
    for title, line in row["rows"]:
        first, last = numbers(title)
        start, stop = (float(one) for one in re.match(r"M([\d.]+) [\d.]+H([\d.]+)", line).groups())
        assert start == pytest.approx(px(first), abs=0.2)
        assert stop == pytest.approx(max(px(last + 1), start + 1), abs=0.2)


@pytest.mark.parametrize("name", LINES)
def test_the_picture_at_an_event_is_what_the_simulator_holds(opened, name):
    line, profile, model = LINES[name]
    case = cachesim.load(line, profile=profile, model=model)
    run = run_pictured(case, profile, events=True)
    px = RunDrawing(run.scene(), alone=False).scale.px
    page = opened(name)
    total = page.evaluate("() => timelines[0].runs[0].n")
    assert total == len(run.told().says)
    slots = "Object.values(timelines[0].runs[0].d.slots)"
    first = page.evaluate(f"() => Math.min(...{slots}.flatMap(s => s.owner.slice(0, 1)))")
    for k in range(first, total, max(1, total // 60)):
        slots, entries = cut(case, profile, k)
        shown = page.evaluate(SHOWN, k)
        assert sorted(numbers(title)[0] for title in shown["entries"]) == entries, k
        drawn = {shown["owners"][str(slot)]: slot for slot in slots if shown["owners"][str(slot)] is not None}
        for row, what in shown["rows"].items():
            if int(row) in drawn:
                check_slot(what, slots[drawn[int(row)]], px)
                if int(row) in shown["running"]:
                    ready = k >= page.evaluate("row => timelines[0].runs[0].d.settled[row]", int(row))
                    held = slots[drawn[int(row)]].tokens if ready else 0
                    assert float(what["veil"]) == pytest.approx(px(held), abs=0.2)
            else:
                assert not any(what[one] for one in ("rows", "window", "dot", "marks")), (k, row)
        assert shown["current"] not in {f"r{row}" for row in shown["later"]}


def test_at_the_end_the_whole_picture_stands(opened):
    page = opened("one")
    page.evaluate("timelines[0].event(timelines[0].runs[0], 40)")
    assert page.locator("g.later").count() == 3 and page.locator("g.live").count() == 1
    page.locator("input.at").press("End")
    for what in ("g.later", "g.running", "g.live", ".veil", ".now > *", "g.current"):
        assert page.locator(what).count() == 0, what
    shown = page.evaluate("(r => r.log.filter((_, k) => r.row(k) >= 0 && r.text(k)).length)(timelines[0].runs[0])")
    assert page.locator(".count").text_content() == f"end, {shown} events"


def test_what_is_taken_from_the_prompt_cache_leaves_its_lane(opened):
    page = opened("one")
    page.evaluate(AT, "entry of 103 tokens removed")
    titles = page.locator(".now title").all_text_contents()
    assert "prompt cache entry of 103 tokens, removed" in titles
    assert page.locator(".now path.gone").count() == 1                     # the arrow to the slot


def test_an_event_marks_what_it_writes_reads_and_erases(opened):
    page = opened("one")
    signs = "() => [...document.querySelectorAll('.live .sign')].map(e => e.textContent + e.parentNode.textContent)"
    page.evaluate(AT, "checkpoints of 80 and 96 tokens erased")
    assert page.locator(".live .erased").count() == 2
    assert all(one.startswith("\u00d7checkpoint of ") for one in page.evaluate(signs))
    page.evaluate(AT, "rows 0 to 102 written; state after 103 tokens; checkpoints of 80 and 96 tokens created")
    assert page.locator(".live .written").count() == 4 and page.locator(".now .taken").count() == 1


def test_later_requests_are_not_yet_in_their_slot(opened):
    page = opened("one")
    page.evaluate("timelines[0].go(3)")
    dashes = "n => getComputedStyle(document.querySelector(`#r${n} .block`)).strokeDasharray"
    assert page.evaluate(dashes, 0) == "none" and page.evaluate(dashes, 3) != "none"


def test_the_picture_stays_where_it_is_while_events_pass(opened):
    for size in ("wide", "narrow"):
        page = opened("one", size)
        tops = page.evaluate("""() => timelines[0].places.map((_, p) => { timelines[0].go(p);
            return document.querySelector('.draw').getBoundingClientRect().top + scrollY; })""")
        assert len(set(tops)) == 1 and len(tops) > 50


def test_marks_name_requests_and_losses_and_lead_to_them(opened):
    page = opened("one")
    assert page.locator(".requests button").all_text_contents() == ["0", "1", "2", "3"]
    losses = page.locator(".losses button")
    assert losses.all_text_contents() == ["\u25bc 4 lost", "\u25bc 96 lost", "\u25bc 40 lost"]
    losses.nth(1).click()
    assert page.locator(".event").text_content().startswith("request 2: ")
    wrong = opened("wrong").locator(".requests .fault").all_text_contents()
    assert wrong and all(one.startswith("\u2717 ") for one in wrong)


def test_play_runs_to_the_end_and_stops(opened):
    page = opened("one")
    page.clock.install()
    slider = page.locator("input.at")
    slider.press("Home")
    slider.press(" ")
    assert page.locator(".play").get_attribute("aria-label") == "pause"
    page.clock.run_for(2900)
    assert page.locator(".count").text_content().startswith("5 of ")
    page.clock.run_for(200_000)
    assert page.locator(".count").text_content().startswith("end, ")
    assert page.locator(".play").get_attribute("aria-label") == "play" and page.evaluate("timelines[0].timer") == 0
    page.emulate_media(reduced_motion="reduce")
    slider.press("Home")
    page.locator(".play").click()
    page.clock.run_for(2900)
    assert page.locator(".count").text_content().startswith("3 of ")


def test_arrows_move_without_the_slider_and_with_shift_by_requests(opened):
    page = opened("one")
    page.keyboard.press("ArrowLeft")
    last = page.evaluate("timelines[0].end")
    assert page.locator(".count").text_content() == f"{last} of {last}"
    page.keyboard.press("Shift+ArrowLeft")
    assert page.evaluate("timelines[0].runs[0].row(timelines[0].places[+timelines[0].at.value][0])") == 2


def test_pointer_and_focus_tell_position_token_and_owner(opened):
    page = opened("one")
    box = page.locator("#r3 .bar rect").first.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 5)
    assert re.match(r"position 0: token 0 of S.*, request 3 in slot 0$", page.locator(".point").text_content())
    page.locator("#r1").focus()
    said = page.locator(".point").text_content()
    assert said.startswith("request 1 in slot 0: B") and "answer 70" in said
