"""Tests of the bars of one conversation under several engines."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

import cachesim
from cachesim.cli.main import main
from cachesim.tools.picture import engine_bars
from cachesim.tools.picture.engine_bars import (
    EngineBar,
    RequestBars,
    bars_html,
    draw_bars,
    of_several_engines,
    request_bars,
)
from cachesim.tools.picture.page import page
from cachesim.tools.picture.picture_options import PictureOptions
from cachesim.tools.picture.svg import draw, first_difference
from cachesim.tools.run.pictured_runs import run_pictured
from tests.unit.tools.picture.test_svg import part, row, scene

LINE = "S40.A60>a30/S.A.a.B20/S.X20"
PROFILES = ["llama_cpp@b11549", "vllm@0.33.0", "sglang@0.5.23", "mlx_lm@0.32.2", "ik_llama@2491"]


def scenes_of(line, profiles, model="GA"):
    return [run_pictured(cachesim.load(line, profile=name, model=model), name, events=False).scene()
            for name in profiles]  # fmt: skip


@pytest.fixture(scope="module")
def scenes():
    """The conversation under five engines."""
    return scenes_of(LINE, PROFILES)


def test_every_request_has_a_bar_per_engine_and_each_bar_covers_the_prompt(scenes):
    requests = request_bars(scenes)
    assert [one.prompt for one in requests] == [100, 150, 60]
    for one in requests:
        assert len(one.bars) == len(PROFILES)
        for bar in one.bars:
            ends = [0, *(part.stop for part in bar.stretches)]
            assert [part.start for part in bar.stretches] == ends[:-1] and ends[-1] == one.prompt


def test_the_order_is_that_of_the_table_of_the_terminal(scenes, capsys):
    words = [word for name in PROFILES for word in ("-p", name)]
    main(["run", LINE, *words, "-q", "--provenance", "--model", "GA"])
    heads = capsys.readouterr().out.splitlines()[1].split()[3:]
    assert [bar.engine for bar in request_bars(scenes)[0].bars] == heads


def test_a_text_has_the_reused_tokens_and_the_most_expensive_cause(scenes):
    says = {bar.engine: bar.says for bar in request_bars(scenes)[1].bars}
    assert says["vllm"] == "96 of 150 tokens reused; 33 again: no restore point was taken there"
    assert says["ik_llama"] == "129 of 150 tokens reused"


def test_a_wrong_answer_is_said_first_and_comes_last():
    died = scenes_of("S40.U60>a30/S.U.a.V20>b30/S.X20/S.U.a.V.b", ["mlx_lm@0.32.2", "llama_cpp@b11549"])
    last = request_bars(died)[3].bars[-1]
    assert (last.engine, last.is_wrong) == ("mlx_lm", True)
    assert last.says.startswith("server died; ")
    assert 'class="bad">server died; ' in bars_html(died)


def test_two_rule_sets_of_an_engine_are_named(scenes):
    three = [*scenes[:2], *scenes_of(LINE, ["llama_cpp@b9518"])]
    assert {bar.engine for bar in request_bars(three)[0].bars} == {"llama_cpp@b11549", "llama_cpp@b9518", "vllm"}


def test_runs_of_one_engine_have_no_bars():
    one = scenes_of(LINE, ["llama_cpp@b11549", "llama_cpp@b9518"])
    assert not of_several_engines(one) and bars_html(one) == "" and draw_bars(one, 0.0) == ("", 0.0)


def test_html_widths_are_shares_of_the_longest_prompt(scenes):
    html = bars_html(scenes)
    ends = [float(x) + float(width) for x, width in re.findall(r'<rect x="([\d.]+)%" y="0" width="([\d.]+)%"', html)]
    assert max(ends) == pytest.approx(100, abs=1e-3)
    assert html.index("#0 S.A") < html.index("#1 S.A.a.B") < html.index("#2 S.X")


def test_the_letters_of_the_bars_are_explained_before_them(scenes):
    legend, _, bars = bars_html(scenes).partition("</ul>")
    letters = r'class="letter"[^>]*>(\S)<'
    assert sorted(re.findall(letters, legend)) == sorted({*re.findall(letters, bars)})
    assert "loaded from the prompt cache / loaded from the shared cache" in legend


def test_the_page_and_the_drawing_begin_with_the_bars(scenes):
    text = page(scenes, PictureOptions())
    assert 0 < text.index('<section class="engines">') < text.index('<div class="verdicts">')
    drawing = draw(scenes)
    ET.fromstring(drawing)
    assert drawing.index('<g class="engines">') < drawing.index('id="r0"')
    assert '<g class="engines">' not in draw(scenes[:1])


def test_a_long_conversation_is_cut_and_says_so(scenes, monkeypatch):
    monkeypatch.setattr(engine_bars, "MOST_REQUESTS", 1)
    assert "2 more requests" in bars_html(scenes) and "#1 " not in bars_html(scenes)
    drawing, height = draw_bars(scenes, 0.0)
    texts = re.findall(r'<text x="[\d.]+" y="([\d.]+)"[^>]*>([^<]*)<', drawing)
    heights = [float(y) for y, _ in texts]
    assert "#0 " in drawing and "#1 " not in drawing
    assert texts[-1][1] == "2 more requests" and heights == sorted(heights) and heights[-1] < height


@pytest.mark.parametrize("spare, words", [(0, 0), (1, 0), (-1, 1)])
def test_only_requests_beyond_the_most_are_left_out(scenes, monkeypatch, spare, words):
    requests = len(request_bars(scenes))
    monkeypatch.setattr(engine_bars, "MOST_REQUESTS", requests + spare)
    assert draw_bars(scenes, 0.0)[0].count("more request") == words == bars_html(scenes).count("more request")


def test_hostile_names_are_escaped(scenes):
    spoilt = [one._replace(rows=[row._replace(text="<b>&\"'") for row in one.rows]) for one in scenes]
    assert "<b>&\"" not in bars_html(spoilt) and "&lt;b&gt;" in bars_html(spoilt)
    ET.fromstring(draw(spoilt))


def test_memories_of_several_engines_are_not_compared(scenes):
    assert first_difference(scenes) == 1
    alike = scenes_of("A60/B60", ["llama_cpp@b11549", "vllm@0.33.0"], model="A")
    assert first_difference(alike) == -1


def test_the_run_that_reuses_most_comes_first_and_one_that_was_cut_off_or_is_wrong_last():
    kept, new, said = part(0, 4, "kept"), part(0, 6), part(6, 9, "generated")
    runs = [scene(row(0, new, said), row(1, new), profile="a@1"),
            scene(row(0, kept, part(4, 6)), row(1, new), profile="b@1"),
            scene(row(0, new), row(1, new), profile="A@1"), scene(row(0, kept), profile="c@1"),
            scene(row(0, kept), row(1, kept, is_wrong=True, verdict="WRONG"), profile="d@1")]  # fmt: skip
    none, four = "0 of 6 tokens reused", "4 of 4 tokens reused"
    assert request_bars(runs) == [
        RequestBars(0, "A", 6, [
            EngineBar("b", [kept, part(4, 6)], "4 of 6 tokens reused", False), EngineBar("A", [new], none, False),
            EngineBar("a", [new], none, False), EngineBar("d", [kept], four, False),
            EngineBar("c", [kept], four, False)]),
        RequestBars(1, "A", 6, [
            EngineBar("b", [new], none, False), EngineBar("A", [new], none, False), EngineBar("a", [new], none, False),
            EngineBar("d", [kept], f"WRONG; {four}", True)]),
    ]  # fmt: skip


def test_a_text_adds_up_the_losses_of_a_cause_and_names_the_greatest():
    once, twice, again = part(0, 5, "again", "once"), part(5, 8, "again", "twice"), part(9, 912, "again", "twice")
    (bars,) = request_bars([scene(row(0, once, twice, part(8, 9, "loaded"), again))])
    assert bars.bars[0].says == "1 of 912 tokens reused; 906 again: twice"
    (bars,) = request_bars([scene(row(0, part(0, 2, "again", "twice"), part(2, 5, "again", "once")))])
    assert bars.bars[0].says == "0 of 5 tokens reused; 3 again: once"


def test_a_request_without_tokens_has_a_bar_of_none():
    (bars,) = request_bars([scene(row(0, part(0, 3, "generated")))])
    assert bars == RequestBars(0, "A", 0, [EngineBar("llama_cpp", [], "0 of 0 tokens reused", False)])
    two = [scene(row(0, part(0, 3, "generated")), profile=name) for name in ("a@1", "b@1")]
    assert "#0 A, 0 prompt tokens" in bars_html(two) and "<rect" not in bars_html(two)


def test_a_figure_on_a_page_is_exact():
    runs = [scene(row(0, part(0, 50, "kept"), part(50, 99, "again", "gone"), part(99, 100)), profile="a@1"),
            scene(row(0, part(0, 100), is_wrong=True, verdict="WRONG"), profile="<b>@1")]  # fmt: skip
    rect = '<rect x="{}%" y="0" width="{}%" height="18" class="o-{}"><title>{}</title></rect>'
    letter = '<text class="letter" x="{}%" y="13">{}</text>'
    drawn = '<svg class="cs" width="100%" height="18" role="img" aria-label="{}">{}</svg>'
    first, other = "50 of 100 tokens reused; 49 again: gone", "WRONG; 0 of 100 tokens reused"
    parts = [rect.format(0, 50, "kept", "0 to 49: kept in the slot") + letter.format(25, "K"),
             rect.format(50, 49, "again", "50 to 98: evaluated again, gone") + letter.format(74.5, "!"),
             rect.format(99, 1, "evaluated", "99 to 99: evaluated, new")]  # fmt: skip
    whole = rect.format(0, 100, "evaluated", "0 to 99: evaluated, new") + letter.format(50, "E")
    assert re.sub('<ul class="legend">.*?</ul>', "", bars_html(runs)) == (
        '<section class="engines"><h2>2 rule sets, the best first</h2><h3>#0 A, 100 prompt tokens</h3>'
        f'<div class="bar"><b>a</b>{drawn.format(f"a: {first}", "".join(parts))}<span>{first}</span></div>'
        f'<div class="bar"><b>&lt;b&gt;</b>{drawn.format(f"&lt;b&gt;: {other}", whole)}'
        f'<span class="bad">{other}</span></div></section>')


@pytest.mark.parametrize(("tokens", "letters"), [(298, ["E"]), (300, ["K", "E"])])
def test_a_stretch_of_a_drawing_has_a_letter_from_15_pixels_on(tokens, letters):
    kept = row(0, part(0, tokens, "kept"), part(tokens, 10_000))
    runs = [scene(kept, profile="a@1"), scene(row(0, part(0, 10_000)), profile="b@1")]
    drawing, _ = draw_bars(runs, 0.0)
    assert re.findall(r'class="letter"[^>]*>(\w)<', drawing) == [*letters, "E"]


def test_a_long_name_of_an_engine_is_cut_beside_its_bar():
    runs = [scene(row(0, part(0, 9)), profile=name) for name in ("a" * 18, "b" * 19)]
    assert re.findall(r">([ab]\w+…?)<", draw_bars(runs, 0.0)[0]) == ["a" * 18, "b" * 17 + "…"]
