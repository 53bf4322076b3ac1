"""Tests that the page at event k shows the contents of a run stopped at event k, in words and at the right place."""

from __future__ import annotations

import re

import pytest

import cachesim
from cachesim.judging.run_data import run_data
from cachesim.tools.picture.event_stream import walk
from cachesim.tools.picture.scene import scene
from cachesim.tools.picture.svg import Drawn
from tests.browser.pages import LINES
from tests.unit.tools.picture.cut import cut

pytestmark = pytest.mark.browser

SHOWN = """k => {
  timelines[0].go(k);
  const run = timelines[0].runs[0], out = {owners: {}, later: [], running: [], entries: [], rows: {}};
  for (const slot of Object.keys(run.d.slots)) out.owners[slot] = run.held(slot, k).owner ?? null;
  run.rows.forEach((g, i) => {
    for (const name of ['later', 'running']) if (g.classList.contains(name)) out[name].push(i);
    const live = g.querySelector('.live'), one = (what, name) => [...(live?.querySelectorAll(what) ?? [])].map(e =>
      [e.parentNode.querySelector('title').textContent, e.getAttribute(name)]);
    out.rows[i] = {rows: one('.rows', 'd'), window: one('.win', 'd'), dot: one('.dot', 'cx'), marks: one('.mark', 'd'),
                   veil: g.querySelector('.veil')?.getAttribute('x') ?? null};
  });
  out.entries = [...run.now.querySelectorAll('rect.full')].map(e => e.parentNode.querySelector('title').textContent);
  out.current = run.svg.querySelector('g.current')?.id ?? null;
  return out;
}"""


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
    judged = run_data(cachesim.judge(case, profile, mode="provenance"))
    px = Drawn(scene(case, judged), alone=False).scale.px
    page = opened(name)
    total = page.evaluate("() => timelines[0].runs[0].n")
    assert total == len(walk(case, profile).events)
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
    page.evaluate("timelines[0].go(40)")
    assert page.locator("g.later").count() == 3 and page.locator("g.live").count() == 1
    page.locator(".at").press("End")
    for what in ("g.later", "g.running", "g.live", ".veil", ".now > *", "g.current"):
        assert page.locator(what).count() == 0, what
    total = len(walk(cachesim.load("llama-24143-entry-removed-hybrid"), "llama_cpp@b10587").events)
    assert page.locator(".count").text_content() == f"end, {total} events"


def test_what_is_taken_from_the_prompt_cache_leaves_its_lane(opened):
    page = opened("one")
    k = page.evaluate("""() => { const run = timelines[0].runs[0];
        return run.log.findIndex((_, k) => run.text(k).includes('cause consumed')); }""")
    page.evaluate("k => timelines[0].go(k)", k)
    titles = page.locator(".now title").all_text_contents()
    assert "prompt cache entry of 103 tokens, removed at this event" in titles
    assert page.locator(".now path.gone").count() == 1                     # the arrow to the slot
