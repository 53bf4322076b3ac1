"""Tests of scenes: ranges add up, and agree with the tables."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import cache

import pytest

import cachesim
from cachesim.cli.main import main
from cachesim.judging.evidence import PREDICTED
from cachesim.tools.picture.event_stream import CaptionedWalk
from cachesim.tools.picture.legend import LETTERS, WORDS
from cachesim.tools.picture.legend import memory as beneath
from cachesim.tools.picture.page import page
from cachesim.tools.picture.picture_options import PictureOptions
from cachesim.tools.picture.position_scale import HEAD, LEAST, MOST, STEP, PositionScale
from cachesim.tools.picture.scene import CacheContents
from cachesim.tools.picture.slot_lanes import SHOWN, Entry, Lanes, lives
from cachesim.tools.picture.svg import draw, first_difference
from cachesim.tools.run.pictured_runs import run_pictured

HYBRID = "llama-24143-entry-removed-hybrid"
WRONG = "S40.A20/S.A>3/B9@0/S.A.C5"


@cache
def seen(case, profile, model="GA"):
    scenario = cachesim.load(case, profile=profile, model=model)
    return run_pictured(scenario, profile, events=False).scene()


def test_a_prompt_that_is_loaded_whole_is_drawn_with_its_last_token_evaluated():
    """The reply counts that token as reused, too."""
    row = seen("vllm-offload-prompt-comes-back", "vllm@0.33.0").rows[-1]
    assert (row.cache_n, row.prompt_n) == (8, 1)
    assert [(part.start, part.stop) for part in row.stretches][:2] == [(0, 7), (7, 8)]


@pytest.mark.parametrize("case, profile", [
    (HYBRID, "llama_cpp@b10587"), (HYBRID, "llama_cpp@pr24143-on-b10587"), (WRONG, "ik_llama@1889-base"),
    ("S40.A60>r4/B70/S.A", "mlx_lm@0.32.2"),
])
def test_stretches_cover_every_prompt_without_a_gap(case, profile):
    for row in seen(case, profile).rows:
        ends = [0, *(part.stop for part in row.stretches)]
        assert [part.start for part in row.stretches] == ends[:-1]
        assert all(part.start < part.stop and part.origin in LETTERS for part in row.stretches)
        assert not row.words or row.words[-1].stop <= ends[-1]
        back = sum(part.stop - part.start for part in row.stretches
                   if part.origin in ("kept", "moved", "restored", "loaded"))  # fmt: skip
        assert back == row.cache_n


def test_a_long_prompt_is_named_in_a_second_line_beneath_its_number():
    row = draw([seen("S40.A60>r4/S.A.r.B7.C8.D9.E9.F9.G9", "llama_cpp@b10587")]).partition('id="r1"')[2]
    names = row.partition('<g class="name">')[2].partition("</g>")[0]
    (first, number), (second, words) = re.findall(r'y="([\d.]+)">([^<]+)</text>', names)
    top = float(re.search(r'class="frame" x="4" y="([\d.]+)"', row)[1])
    assert (number, words[:3], words[-3:]) == ("#1", "S.A", "F.G")
    assert top < float(first) < float(second) < top + STEP


def test_words_stand_above_their_own_tokens():
    rows = seen("A40.B10>r4/A[10:30].B[5:].C6/A[:3].r.C", "llama_cpp@b10587").rows
    assert [[(word.name, word.start, word.stop) for word in row.words] for row in rows] == [
        [("A", 0, 40), ("B", 40, 50)], [("A", 0, 20), ("B", 20, 25), ("C", 25, 31)],
        [("A", 0, 3), ("r", 3, 7), ("C", 7, 13)],
    ]  # fmt: skip


def test_what_was_lost_points_to_where_it_was_lost():
    row = seen(HYBRID, "llama_cpp@b10587").rows[3]
    again = [(one.start, one.stop, one.at) for one in row.stretches if one.origin == "again"]
    assert again == [(0, 96, 2), (96, 100, 0)]
    first = row.stretches[0]
    assert (first.rule, first.lost) == ("LC-PC-LOAD.TAKE", ("consumed", "entry checkpoint"))


@pytest.mark.parametrize(("profile", "model", "like"), [
    ("llama_cpp@b10587", "llama", "AAAA"), ("llama_cpp@b10587", "gemma3", "W32 A W32 A"),
    ("llama_cpp@b10587", "mamba2", "SSSS"), ("llama_cpp@b10587", "qwen35mtp", "GGGAGGGA+M"),
    ("mlx_lm@0.32.2", "lfm2", "CCA"), ("ik_llama@main", "deepseek4", "W128 A W128 A+M"),
])  # fmt: skip
def test_a_model_with_a_name_is_drawn_as_its_layers(profile, model, like):
    named, layers = (seen("S40.A60>r4/S.B9", profile, one).rows for one in (model, like))
    assert [bool(row.memory.rows) for row in named] == [bool(row.memory.rows) for row in layers]
    assert [row.memory.state for row in named] == [row.memory.state for row in layers]
    assert named[0].memory.rows or named[0].memory.state


def test_attention_has_rows_and_a_state_has_one_position():
    both, rows, state = (seen("S40.A60>r4", "llama_cpp@b10587", model).rows[0].memory for model in ("GA", "A", "S"))
    assert (both.rows, both.state) == ((0, 103), 103)
    assert (rows.rows, rows.state) == ((0, 103), None) and (state.rows, state.state) == (None, 103)
    assert rows.window is None and state.window is None


@pytest.mark.parametrize(("line", "profile", "rows", "window"), [
    ("S40.A60>r4", "llama_cpp@b10587", (0, 103), (0, 103)),          # its cache has 768 cells: nothing is lost
    ("P900>r4", "llama_cpp@b10587", (0, 903), (135, 903)),
    ("P900>r4", "ik_llama@main", (0, 903), (0, 903)),              # keeps all rows
    ("P900>r4", "mlx_lm@0.32.2", (0, 904), (896, 904)),            # a ring of the window's size
])  # fmt: skip
def test_of_a_window_the_rows_are_drawn_that_are_left(line, profile, rows, window):
    memory = seen(line, profile, "W8 A").rows[0].memory
    assert (memory.rows, memory.window) == (rows, window)


@pytest.mark.parametrize("model", ["I8", "A B2", "W8 I8", "G P8"])
def test_index_rows_have_a_line_of_their_own(model):
    drawn = seen("S40.A20>4/S.B9", "llama_cpp@b11549", model)
    assert drawn.strips == 1 and [row.memory.index_rows for row in drawn.rows] == [(0, 63), (0, 49)]
    assert [row.held[0] for row in drawn.rows] == ["index rows 0 to 62", "index rows 0 to 48"]
    assert 'class="idx"' in (text := draw([drawn])) and ">index rows<" in text and ">compressed rows<" not in text


def test_compressed_rows_have_a_line_for_each_ratio():
    drawn = seen("S40.A20>4/S.B9", "llama_cpp@b11549", "W8 D4.8.3 D8.8")
    assert drawn.strips == 2 and [row.memory.compressed for row in drawn.rows] == [[(4, 15), (8, 7)], [(4, 12), (8, 6)]]
    assert list(drawn.rows[0].held[:2]) == ["15 compressed rows of 4 tokens each", "7 compressed rows of 8 tokens each"]
    memory = drawn.rows[0].memory
    assert (memory.rows, memory.index_rows, memory.state) == (None, None, 63)
    text = draw([drawn])
    shown = [f">{words}<" in text for words in ("compressed rows", "last inputs of the compressors", "recurrent state")]
    assert shown == [True, True, False]


def test_the_lines_below_a_window_stand_below_each_other_and_above_the_state():
    scene = seen("S40.A20>4", "llama_cpp@b11549", "W8 D4.8.3 D8.8")
    lines = [*beneath(scene.rows[0].memory, PositionScale([0, 63]), 0.0, scene)]
    heights = [float(re.search(r'd="M[\d.]+ ([\d.]+)H', line)[1]) for line in lines if "<path" in line and "H" in line]
    dot, mark = re.search(r'cy="([\d.]+)"', "".join(lines)), re.search(r'd="M[\d.-]+ ([\d.]+)h8l', "".join(lines))
    assert heights == [8.0, 12.5, 17.0] and (float(dot[1]) - 4, float(mark[1])) == (18.0, 35.0)


def test_lines_are_told_apart_without_their_colours():
    drawn = draw([seen("S40.A20>4", "llama_cpp@b11549", model) for model in ("W8 I8", "W8 D4.8.3")])
    dashes = {kind: re.search(rf'class="{kind}" d="[^"]+" stroke-dasharray="([^"]+)"', drawn)[1]
              for kind in ("rows", "win", "idx", "packed")}  # fmt: skip
    assert dashes["idx"] == "2 2" and float(dashes["packed"].split()[0]) > 1.5 * float(dashes["win"].split()[0])


def test_a_wrong_answer_is_marked_and_says_what_it_read():
    rows = seen(WRONG, "ik_llama@1889-base").rows
    assert rows[1].is_wrong and rows[1].read and "WRONG" in rows[1].verdict


def test_foreign_rows_are_marked_and_lead_to_their_request():
    one = seen(WRONG, "ik_llama@1889-base")
    read = one.rows[1].foreign[0]
    assert one.rows[1].foreign and read.says == one.rows[1].read[0] and read.start <= read.stop
    assert "url(#p-wrong)" in draw([one]) and "url(#p-wrong)" not in draw([seen(HYBRID, "llama_cpp@b10587")])


def test_a_state_that_was_read_is_marked_at_the_end_of_its_tokens():
    one = seen("mlx-1736-padding-in-state-hybrid", "mlx_lm@0.31.3")
    assert [(read.start, read.stop) for read in one.rows[3].foreign] == [(20, 20)], "20 tokens were loaded"
    row = draw([one]).partition('id="r3"')[2].partition('id="r4"')[0]
    boxes = re.findall(r'<rect class="wrong" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', row)
    assert [float(wide) for _, wide in boxes] == [6.0]


def test_entries_of_the_prompt_cache_come_and_go():
    takes, keeps = (seen(HYBRID, profile).rows for profile in ("llama_cpp@b10587", "llama_cpp@pr24143-on-b10587"))
    assert [row.entries for row in takes] == [
        CacheContents([], [], []), CacheContents([103], [103], []), CacheContents([73], [73], [103], True),
        CacheContents([73, 68], [68], []),
    ]  # fmt: skip
    assert not any(row.entries.gone for row in keeps)
    for number, row in enumerate(takes):
        assert sorted(takes[number - 1].entries.lengths if number else []) == sorted(
            [*row.entries.gone, *_without(row.entries.lengths, row.entries.saved)])  # fmt: skip
    assert "removed on load during request 2" in draw([seen(HYBRID, "llama_cpp@b10587")])


def _without(lengths, saved):
    left = list(lengths)
    for one in saved:
        left.remove(one)
    return left


def test_a_checkpoint_has_its_pos_min_and_pos_max():
    memory = seen("P900>r4", "llama_cpp@b10587", "W8 A S").rows[0].memory
    assert memory.checkpoints and len(memory.spans) == len(memory.checkpoints)
    assert all(low <= high == tokens - 1 for tokens, (low, high) in zip(memory.checkpoints, memory.spans, strict=True))
    assert f"[pos_min {memory.spans[0][0]}, pos_max {memory.spans[0][1]}]" in draw([seen("P900>r4", "llama_cpp@b10587",
                                                                                      "W8 A S")])  # fmt: skip


def test_many_checkpoints_are_drawn_in_one_and_all_named():
    scene = seen("P900>r4", "llama_cpp@b10587", "W8 A S")
    memory, scale = scene.rows[0].memory, PositionScale([100, 200, 904])
    few = "".join(beneath(memory._replace(checkpoints=[100, 200], spans=[(0, 99), (92, 199)]), scale, 0, scene))
    marks = list(range(100, 1000, 100))
    many = "".join(beneath(memory._replace(checkpoints=marks, spans=[(n - 8, n - 1) for n in marks]), scale, 0,
                           scene))  # fmt: skip
    bare = "".join(beneath(memory._replace(checkpoints=marks, spans=()), scale, 0, scene))
    assert "checkpoint of 200 tokens, [pos_min 92, pos_max 199]" in few and few.count("l-4 -8z") == 2
    assert "tokens and [pos_min, pos_max]: 100 [92, 99], 200 [192, 199], " in many and many.count("l-4 -8z") == 9
    assert "tokens: 100, 200, 300, " in bare


def test_of_many_words_those_are_named_that_stand_in_no_row_above():
    text = draw([seen(chats(1, 14), "llama_cpp@b10587")])
    rows = [text[text.index(f'id="r{n}"'):text.index(f'id="r{n + 1}"')] for n in (11, 12)]
    names = [re.findall(r">(\w+)</text>", row.split('class="dim mid"')[1].split("</g>")[0]) for row in rows]
    assert len(names[0]) == 24 and names[0][0] == "S" and names[1] == ["ral", "uam"]


def test_the_first_difference_of_two_runs_is_marked():
    two = [seen(HYBRID, "llama_cpp@b10587"), seen(HYBRID, "llama_cpp@pr24143-on-b10587")]
    assert first_difference(two) == 2 and draw(two).count(">first difference<") == 2
    frame, note = (float(re.search(one, draw(two))[1]) for one in (r'class="first" x="4"[^>]* width="([\d.]+)"',
                                                                   r'<g class="notes"><text x="([\d.]+)"'))  # fmt: skip
    assert 4 + frame < note                                     # and lines do not cross the notes
    assert first_difference([two[0], two[0]]) == first_difference(two[:1]) == -1
    assert "first difference" not in draw([two[0], two[0]])


def test_the_drawing_is_xml_with_an_anchor_for_each_request():
    text = draw([seen(HYBRID, "llama_cpp@b10587"), seen(HYBRID, "llama_cpp@pr24143-on-b10587")])
    root = ET.fromstring(text)
    ids = [one.get("id") for one in root.iter() if one.get("id") and re.fullmatch(r"(p\d+-)?r\d+", one.get("id", ""))]
    assert len(ids) == len(set(ids)) == 8 and "r3" in ids
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert set(LETTERS) == set(WORDS) and len(set(LETTERS.values())) == len(LETTERS)


def test_a_line_is_the_title_of_its_picture():
    assert seen("S40.A60>r4/B70", "llama_cpp@b10587").title == "S40.A60>r4/B70"
    long = seen("/".join(["S4.A6", *["S.A"] * 30]), "llama_cpp@b10587").title
    assert long.startswith("S4.A6/S.A/S.A") and len(long) == 72 and long.endswith("…")
    assert seen(HYBRID, "llama_cpp@b10587").title.startswith("prompt cache entry removed by a hit")


def test_texts_are_escaped():
    one = seen(HYBRID, "llama_cpp@b10587")._replace(title='<script>alert("x")</script>', why="</script><b>")
    found = run_pictured(cachesim.load(HYBRID), "llama_cpp@b10587", events=True).told().walk
    says = ["LC-X: </script><img src=x>"] * len(found.events)
    html = page([one], PictureOptions("a <b> 'c'", "<b>"), told=[CaptionedWalk(found, says, [True] * len(says))])
    assert "<script>alert" not in html and "</script><img" not in html and "<b>" not in html
    assert html.count("</script>") == 2                       # those of the page


@pytest.mark.long
def test_a_page_needs_no_network_and_is_small(tmp_path):
    scenes = [seen(HYBRID, "llama_cpp@b10587")]
    html = page(scenes, PictureOptions("cachesim run x"))
    assert not re.search(r"src=|<link|@import|url\(http", html)
    assert re.findall(r"<(\w+) href=[\"'](?!#)", html) == ["a"] * 3        # links to sources of rules
    line = "/".join(["S40.A60>r4", *["B70", "S.A"] * 24])
    file = tmp_path / "fifty.html"
    main(["run", line, "-p", "llama_cpp@b10587", "--html", str(file), "-q"])
    text = file.read_text("utf-8")
    assert text.count('<details id="d-r') == 49 and "<code>LC-" in text and file.stat().st_size < 400_000


def chats(several, turns):
    """Return conversations with a common beginning that grow in turn; each request has a new question."""
    known, said, steps = set(), [["S"] for _ in range(several)], []

    def word(name, tokens):
        new = name not in known
        known.add(name)
        return f"{name}{tokens}" if new else name

    for number in range(several * turns):
        mine = said[number % several]
        mark = chr(97 + number // 26) + chr(97 + number % 26)
        mine.append(f"u{mark}")
        prompt = ".".join(word(name, {"S": 200, "u": 60, "r": 30}[name[0]]) for name in mine)
        steps.append(f"{prompt}>{word(f'r{mark}', 30)}")
        mine.append(f"r{mark}")
    return "/".join(steps)


@pytest.mark.long
@pytest.mark.parametrize(("profile", "model", "several"), [("llama_cpp@b11549", "GGGA", 1), ("mlx_lm@0.32.2", "GA", 5)])
def test_a_page_of_fifty_requests_of_growing_chats_is_small(tmp_path, profile, model, several):
    file = tmp_path / "chats.html"
    line = ["run", chats(several, 50 // several), "-p", profile, "--model", model, "--provenance", "-q"]
    assert main([*line, "--html", str(file)]) == 0
    text = file.read_text("utf-8")
    assert text.count('<details id="d-r') == 50 and file.stat().st_size < 400_000
    drawn = ET.fromstring(text[text.index("<svg"):text.index("</svg>") + len("</svg>")])
    assert float(drawn.get("width", 0)) < 2_000 or several == 1


def test_a_wide_scale_has_narrower_tokens():
    assert PositionScale([300]).width == MOST and PositionScale(range(0, 400, 10)).width == 390 * 3.0
    assert PositionScale(range(0, 2000, 20)).width == 99 * 12.0


def test_the_legend_explains_what_is_drawn_and_nothing_else():
    loss, wrong = draw([seen(HYBRID, "llama_cpp@b10587")]), draw([seen(WRONG, "ik_llama@1889-base")])
    for says in ("recurrent state", "checkpoint", "entry removed on load", "request where it was lost"):
        assert f">{says}<" in loss
    assert ">wrong answer<" not in loss and ">rows of the window<" not in loss and ">entry removed<" not in loss
    assert ">wrong answer<" in wrong and ">wrong rows or state read<" in wrong
    assert ">entry removed on load<" not in wrong
    dense = draw([seen("S40.A60", "llama_cpp@b10587", "A")])
    assert ">attention rows<" in dense and ">recurrent state<" not in dense and ">checkpoint<" not in dense


def test_a_page_says_title_and_sources_beside_its_picture():
    one = seen(HYBRID, "llama_cpp@b10587")
    alone, within = draw([one]), draw([one], alone=False)
    assert "; source ggml-org" in alone and "source" not in within
    assert 'viewBox="0 0 ' in alone and f'viewBox="0 {HEAD} ' in within


def test_a_scale_shows_short_stretches_and_breaks_long_ones():
    scale = PositionScale([1, 100_000, 100_010])
    widths = [b - a for a, b in zip(scale.x, scale.x[1:], strict=False)]
    assert widths == [LEAST, MOST, 40.0] and scale.broken == [(1, 100_000)]
    assert scale.of(0) == 0 and scale.of(100_010) == scale.width and scale.of(999_999) == scale.width
    assert [scale.of(one) for one in range(3)] == sorted(scale.of(one) for one in range(3))


def test_the_files_are_written_whole(tmp_path, capsys):
    html, svg = tmp_path / "a.html", tmp_path / "a.svg"
    files = ["--html", str(html), "--svg", str(svg)]
    assert main(["run", HYBRID, "-p", "llama_cpp@b10587", "--provenance", *files]) == 0
    assert html.read_text("utf-8").startswith("<!doctype html>") and ET.parse(svg).getroot().tag.endswith("svg")
    assert "LC-PC-LOAD.TAKE" in html.read_text("utf-8")
    capsys.readouterr()


def test_a_picture_of_two_scenarios_is_refused(tmp_path, capsys):
    code = main(["run", HYBRID, "llama-24143-entry-removed-dense", "-p", "llama_cpp@b10587", "--svg",
        str(tmp_path / "a.svg")])
    assert code == 2 and "can show one scenario only" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_loss_names_rule_source_and_flag_in_the_drawing_and_in_the_text():
    one = seen(HYBRID, "llama_cpp@b10587")
    cause = one.causes["LC-PC-LOAD.TAKE"]
    assert cause.flags == ("--cache-ram 100",) and cause.link.startswith("https://github.com/ggml-org/llama.cpp/")
    svg, html = draw([one]), page([one], PictureOptions("cachesim run x"))
    assert "(LC-PC-LOAD.TAKE," in svg and f"source {cause.source}" in svg and "--cache-ram 100" in svg
    assert f'<a href="{cause.link}">' in html and html.count("<code>--cache-ram 100</code>") == 2
    assert seen("S40.A60/B70", "llama_cpp@b10587").causes == {}


def test_requests_stand_in_the_lane_of_their_slot_and_entries_in_theirs():
    one = seen("S40.A60>r4/B70/S.C25/S.A.D5", "llama_cpp@b10587", "W8 A")
    lanes = Lanes(one)
    assert lanes.slots == sorted({row.slot for row in one.rows}) and len(lanes.slots) > 1
    assert sorted({lanes.slot(row.slot) for row in one.rows}) == [lanes.slot(slot) for slot in lanes.slots]
    assert lanes.slot(lanes.slots[-1]) < lanes.cache < lanes.left <= lanes.cache + lanes.width + 14
    assert draw([one]).count('class="num"') == len(one.rows)


def test_an_entry_stands_in_its_lane_from_the_request_that_saved_it_to_the_one_that_took_it():
    takes, keeps = (seen(HYBRID, profile) for profile in ("llama_cpp@b10587", "llama_cpp@pr24143-on-b10587"))
    assert lives(takes.rows) == [Entry(0, 68, 3, None, False), Entry(0, 103, 1, 2, True), Entry(1, 73, 2, None, False)]
    assert [entry.gone for entry in lives(keeps.rows)] == [None] * 3
    assert Lanes(takes).gone_at(2) == Lanes(takes).entry(0) + 4 and Lanes(takes).gone_at(3) is None


def test_many_slots_share_a_lane_and_many_entries_are_counted():
    line = "/".join(f"{letter}20>q1" for letter in "ABCDEFGHIJKL")
    one = seen(line, "mlx_lm@0.32.2")
    lanes = Lanes(one)
    assert lanes.shared and {lanes.slot(row.slot) for row in one.rows} == {lanes.slot(0)}
    last = len(one.rows[-1].entries.lengths)
    assert lanes.more == (last > SHOWN) and (f">+{last - SHOWN}<" in draw([one])) == lanes.more


def test_micro_batches_are_marked_where_they_begin_and_named_in_the_details():
    shown = seen("S600.A60", "llama_cpp@b10587", "A")
    [first] = shown.rows
    assert first.batches == [512] and "2 micro-batches: slot 3: 0..511, slot 3: 512..659" in first.held
    drawing = draw([shown])
    assert "<title>micro-batches begin at 512</title>" in drawing and ">a micro-batch begins<" in drawing
    assert "a micro-batch begins" not in draw([seen("A1", "llama_cpp@b10587", "A")])


def test_bytes_of_stored_objects_stand_in_the_details():
    [*_, last] = seen(HYBRID, "llama_cpp@b10587").rows
    assert re.search(r"checkpoints: [\d,]+ bytes \(", " ".join(last.held))


def test_the_adapters_of_a_request_and_the_size_of_an_image_are_shown():
    rows = seen("llama-lora-request-without-list", "llama_cpp@b11549", None).rows
    under = ["under adapter 0: empty slot", "under no adapter: extends the slot", "under no adapter: LCP 0, 49 moved"]
    assert [row.reason for row in rows] == under
    scenario = cachesim.load("S4.I4x2.B6", profile="llama_cpp@b11549", model="A", server={"mmproj": "causal"})
    words = run_pictured(scenario, "llama_cpp@b11549", events=False).scene().rows[0].words
    assert [(word.name, word.stop) for word in words] == [("S", 4), ("I", 12), ("B", 18)]
    assert [word.title for word in words] == ["", "image 4x2", ""]


@pytest.mark.parametrize(("what", "number", "read"), [
    ("verdict", 1, [[], [PREDICTED]]), ("charge", 1, [[], []]), ("verdict", 0, [[PREDICTED], []]),
])  # fmt: skip
def test_an_answer_that_rests_on_an_outcome_that_was_never_seen_says_so(what, number, read):
    made = run_pictured(cachesim.load("S4/S.A4", profile="llama_cpp@b10587", model="A"), "llama_cpp@b10587",
                        events=False)  # fmt: skip
    data = {**made.data, "predicted": [{"what": what, "rule": "R", "case": "c", "request": number}]}
    assert [row.read for row in made._replace(data=data).scene().rows] == read


@pytest.mark.parametrize(("what", "is_told"), [("charge", True), ("verdict", False)])
def test_a_loss_that_rests_on_an_outcome_that_was_never_seen_says_so(what, is_told):
    made = run_pictured(cachesim.load(HYBRID, profile="llama_cpp@b10587", model="GA"), "llama_cpp@b10587",
                        events=False)  # fmt: skip
    number = made.data["lost"][0]["request"]
    data = {**made.data, "predicted": [{"what": what, "rule": "R", "case": "c", "request": number}]}
    told = [part.why.endswith(PREDICTED) for row in made._replace(data=data).scene().rows for part in row.stretches
            if part.origin == "again" and row.number == number]  # fmt: skip
    assert told and all(one is is_told for one in told)
