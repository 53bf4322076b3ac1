"""Drawings of runs whose requests are given: rows, notes, arrows, labels, and the first difference."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from cachesim.judging.evidence import PREDICTED
from cachesim.tools.picture.legend import NAME
from cachesim.tools.picture.scene import (
    CacheContents,
    ForeignRead,
    RuleSource,
    Scene,
    SlotMemory,
    StepRow,
    TokenStretch,
    Word,
)
from cachesim.tools.picture.svg import (
    MANY,
    RunDrawing,
    draw,
    first_difference,
    lost_line,
    prefix,
)

EMPTY, NO_ENTRIES = SlotMemory(None, None, None, ()), CacheContents()
KNOWN = {"LC-X": RuleSource("LC-X", "a source", "", ("--a 1", "--b 2")), "LC-Z": RuleSource("LC-Z", "z", "", ())}
SVG = "{http://www.w3.org/2000/svg}"


def part(start, stop, origin="evaluated", why="", at=-1, rule="", lost=("", "")):
    return TokenStretch(start, stop, origin, why, at, rule, lost)


def row(number=0, *stretches, text="A", slot=0, words=(), memory=EMPTY, entries=NO_ENTRIES, verdict="OK",
        is_wrong=False, reason="", read=(), cache_n=0, prompt_n=10, **more):  # fmt: skip
    return StepRow(number, text, more.pop("why", ""), slot, words, stretches or (part(0, prompt_n),), memory, entries,
                   verdict, is_wrong, reason, more.pop("rule", ""), read, cache_n, prompt_n, **more)  # fmt: skip


def scene(*rows, profile="llama_cpp@b1", causes=KNOWN, **more):
    return Scene("title", "", profile, "GA", "OK", rows, causes, **{"answer": "correct answers", **more})


def tree(*scenes, **more):
    return ET.fromstring(draw(scenes, **more))


def found(drawn, tag="text", kind=None):
    """Return the texts of the elements of this tag and class; of other tags than "text" the elements."""
    each = [one for one in drawn.iter(SVG + tag) if kind is None or one.get("class") == kind]
    return [one.text for one in each] if tag == "text" else each


def ranges(drawn):
    """Return the boxes of the ranges of tokens."""
    return [box for box in drawn.iter(f"{SVG}rect") if (box.get("class") or "").startswith("o-") and len(box)]


def groups(drawn, kind):
    """Return the texts of each group of this class."""
    return [found(group) for group in drawn.iter(f"{SVG}g") if group.get("class") == kind]


def test_a_loss_has_its_rule_with_the_first_option_and_on_request_its_source():
    one = part(3, 10, "again", "why", 1, "LC-X")
    assert lost_line(one, KNOWN) == "7 again: why (LC-X, --a 1)"
    assert lost_line(one, KNOWN, source=True) == "7 again: why (LC-X, --a 1); source a source; --b 2"
    assert lost_line(one._replace(rule="LC-Z"), KNOWN, source=True) == "7 again: why (LC-Z); source z"
    assert lost_line(one._replace(rule="LC-Y"), KNOWN, source=True) == "7 again: why (LC-Y)"
    assert lost_line(one._replace(rule=""), KNOWN, source=True) == "7 again: why"


def test_the_anchors_of_the_first_run_have_no_prefix():
    assert [prefix(number) for number in (0, 1, 12)] == ["", "p1-", "p12-"]
    drawn = tree(scene(row(0), row(3)), scene(row(0), row(3)), name="x-")
    ids = [group.get("id") for group in drawn.iter(f"{SVG}g") if group.get("id")]
    assert ids == ["x-r0", "x-r3", "x-p1-r0", "x-p1-r3"]
    assert 'id="p4-r0"' in draw([scene(row(0))], first=4)


@pytest.mark.parametrize("change", [
    {"verdict": "WRONG"}, {"stretches": (part(0, 9),)}, {"memory": EMPTY._replace(state=3)},
    {"entries": CacheContents((5,))},
])  # fmt: skip
def test_the_first_difference_is_one_of_tokens_verdict_or_memory(change):
    same, other = row(4), row(4)._replace(**change)
    assert first_difference([scene(row(2), same), scene(row(2), other)]) == 4
    assert first_difference([scene(row(2), same), scene(row(2), same), scene(row(2), other)]) == 4
    assert first_difference([scene(row(2), same), scene(row(2), same)]) == -1


def test_a_missing_request_is_a_difference_and_reuse_alone_is_not():
    assert first_difference([scene(row(2), row(4)), scene(row(2))]) == 4
    assert first_difference([scene(row(2)), scene(row(2), row(5))]) == 5
    assert first_difference([scene(row(2)), scene(row(2, cache_n=4, reason="x"))]) == -1
    assert first_difference([]) == first_difference([scene(row())]) == -1


def test_memories_of_several_engines_are_not_compared():
    other = scene(row(2, part(0, 9), memory=EMPTY._replace(state=3)), profile="mlx_lm@1")
    assert first_difference([scene(row(2)), other]) == -1
    assert first_difference([scene(row(2)), scene(row(2, cache_n=1), profile="mlx_lm@1")]) == 2
    assert first_difference([scene(row(2)), scene(row(2, verdict="WRONG"), profile="mlx_lm@1")]) == 2


def test_the_first_difference_has_a_frame_in_every_run():
    one, other = scene(row(0), row(1)), scene(row(0), row(1, verdict="WRONG"))
    for scenes, more, count in (((one, other), {}, 2), ((one, other), {"differs": -1}, 0), ((one,), {}, 0),
                                ((one,), {"differs": 0}, 1)):  # fmt: skip
        drawn = tree(*scenes, **more)
        frames = found(drawn, "rect", "first")
        assert len(frames) == count and found(drawn).count("first difference") == count
    (frame,) = found(tree(one, differs=1), "rect", "first")
    scale = RunDrawing(one).scale
    assert dict(frame.items()) == {"class": "first", "x": "4", "y": "158", "height": "70",
                                   "width": f"{scale.left + scale.width + 12:.1f}"}  # fmt: skip


def test_a_drawing_has_title_answer_style_and_legend_only_alone():
    one = scene(row(0), cost="3 tokens again")
    alone, beside = tree(one), tree(one, alone=False)
    assert found(alone)[:2] == ["title", "llama_cpp@b1, model GA: correct answers, 3 tokens again"]
    assert "title" not in found(beside) and len(found(beside)) < len(found(alone)) - 2
    assert len(found(alone, "style")) == 1 and not found(beside, "style")
    assert alone.get("aria-label") == beside.get("aria-label") == "title, llama_cpp@b1: correct answers"
    width, height = beside.get("width"), beside.get("height")
    assert (beside.get("viewBox"), height) == (f"0 46 {width} {height}", str(102 + 74 - 46))
    assert alone.get("viewBox") == f"0 0 {alone.get('width')} {alone.get('height')}"


def test_runs_are_stacked_and_the_widest_sets_the_width():
    small, wide = scene(row(0, prompt_n=1)), scene(*(row(n, part(n * 40, n * 40 + 37)) for n in range(6)))
    both = tree(small, wide, alone=False)
    assert both.get("width") == f"{RunDrawing(wide, False, (small, wide)).width:.0f}"
    assert both.get("height") == str(2 * 102 + 7 * 74 - 46)
    frames = [float(one.get("y")) for one in found(both, "rect", "frame")]
    assert frames == [84, *(102 + 74 + 102 - 18 + 74 * n for n in range(6))]


def test_a_token_has_the_same_place_in_runs_that_are_compared():
    memory = SlotMemory((0, 9), None, None, (5, 7))
    some = scene(row(0, part(0, 90))), scene(row(0, part(0, 30), part(30, 90), memory=memory), row(1, slot=1))
    one, other = (RunDrawing(each, False, some) for each in some)
    assert [one.scale.px(at) for at in range(91)] == [other.scale.px(at) for at in range(91)]
    assert one.lanes.left < other.lanes.left == one.scale.left and one.width == other.width
    assert draw(some[:1], alone=False, beside=some) != draw(some[:1], alone=False)


def test_a_long_title_and_a_long_answer_are_whole_and_push_the_rest_down():
    short = scene(row(0))
    long = short._replace(title="title " * 40, cost="tokens re-evaluated " * 20)
    drawn = tree(long)
    heads = found(drawn, kind="big") + found(drawn, kind="dim")
    assert " ".join(heads).count("title") == 40 and " ".join(heads).count("re-evaluated") == 20
    room = float(drawn.get("width")) - 24
    assert all(9.1 * len(one) <= room for one in found(drawn, kind="big"))
    lines = [one for one in found(drawn, kind="dim") if "re-evaluated" in one]
    assert len(lines) > 1 and all(7.3 * len(one) <= room for one in lines)
    assert float(drawn.get("height")) > float(tree(short).get("height")) + 17 * (len(lines) - 1)


def test_the_width_holds_the_title_and_the_names_of_foreign_data():
    one = scene(row(0))
    assert RunDrawing(one).plain == 560
    assert RunDrawing(one._replace(title="t" * 60)).plain == 24 + 9.1 * 60
    assert RunDrawing(one._replace(title="t" * 200)).plain == 900
    scale = RunDrawing(one).scale
    assert RunDrawing(one).width == max(560, scale.left + scale.width + 380)
    read = ForeignRead(0, 4, 0, 300, "rows of request 0")
    far = scene(*(row(n, part(n * 38, n * 38 + 37)) for n in range(8)), row(8, foreign=(read,)))
    drawn = RunDrawing(far)
    assert drawn.plain > drawn.scale.left + drawn.scale.width + 16
    unknown = ForeignRead(0, 4, 0, -1, "rows of request 0")
    drawn = RunDrawing(scene(*(row(n, part(0, 4), text="t" * 40, slot=n, foreign=(unknown,)) for n in range(8))))
    assert drawn.plain == drawn.scale.left + NAME > 560, "an unknown position has its name at position 0"


def test_a_drawing_alone_is_wider_than_in_a_timeline():
    one = scene(row(0, *(part(30 * n, 30 * n + 30) for n in range(11))))
    assert (RunDrawing(one).scale.width, RunDrawing(one, alone=False).scale.width) == (990, 330)
    assert draw([one]) == draw([one], alone=True) != draw([one], alone=False)


def test_the_scale_has_every_edge_of_the_run():
    memory = SlotMemory((0, 9), (3, 11), 12, (5, 7))
    read = ForeignRead(21, 23, 0, 2, "")
    one = scene(row(0, part(0, 4), part(4, 20), words=(Word("A", 0, 6),), memory=memory, foreign=(read,)))
    assert RunDrawing(one).scale.at == [0, 3, 4, 5, 6, 7, 11, 12, 20, 21, 23]


def notes(step, **more):
    """Return the notes beside the first row, with their classes."""
    drawn = tree(scene(step, **more))
    (group,) = [group for group in drawn.iter(f"{SVG}g") if group.get("class") == "notes"]
    return [(text.text, text.get("class")) for text in group]


def test_the_notes_are_the_verdict_with_its_reason_and_each_loss():
    assert notes(row(0, reason="extends the slot")) == [("correct answer: extends the slot", "dim")]
    again = part(0, 3, "again", "it went", 0, "LC-X"), part(3, 9), part(9, 10, "again", "it went too")
    assert notes(row(1, *again)) == [("correct answer", "dim"), ("3 again: it went (LC-X, --a 1)", "dim"),
                                     ("1 again: it went too", "dim")]  # fmt: skip


def test_the_notes_of_a_wrong_answer_say_in_red_what_it_read():
    long = "rows " * 12
    lines = notes(row(0, part(0, 3, "again", "x"), verdict="WRONG", is_wrong=True, read=(long, "b", PREDICTED)))
    assert lines[0] == ("WRONG", "bad")
    assert lines[1:3] == [("rows rows rows rows rows rows rows rows rows", "bad"), ("rows rows rows", "bad")]
    assert all(kind == "dim" for _, kind in lines[3:]) and lines[-1][0] == "3 again: x"
    assert "b" not in [text for text, _ in lines]
    assert notes(row(0, read=("seen",)))[1:] == [("seen", "dim")]


def test_the_notes_have_four_lines_and_say_that_there_are_more():
    again = [part(n, n + 1, "again", f"loss-{n}-" + "x" * 29) for n in range(5)]
    assert notes(row(0, *again[:4]))[1:] == [(f"1 again: loss-{n}-{'x' * 29}", "dim") for n in range(4)]
    last = notes(row(0, *again))
    assert len(last) == 5 and last[-1] == (f"1 again: loss-3-{'x' * 29}"[:44] + " ...", "dim")


def test_a_range_has_a_title_with_its_tokens_and_origin():
    again = part(5, 10, "again", "gone", 2, "LC-X")
    one = scene(row(3, part(0, 5, "kept", "from <A>"), again, part(10, 12, "generated")))

    def titles(**more):
        return [box[0].text for box in ranges(tree(one, **more))]

    assert titles()[1] == "5 to 9: 5 again: gone (LC-X, --a 1); source a source; --b 2 (request 2)"
    assert titles(alone=False)[1] == "5 to 9: 5 again: gone (LC-X, --a 1) (request 2)"
    assert titles()[0].startswith("0 to 4: ") and titles()[0].endswith(", from <A>")
    assert titles()[2].startswith("10 to 11: ") and "(request" not in titles()[2]


def test_wide_ranges_have_letters_and_the_widths_of_their_tokens():
    one = scene(row(0, part(0, 5, "kept"), part(5, 6, "evaluated"), part(6, 40, "loaded")))
    scale = RunDrawing(one).scale
    assert [(float(box.get("x")), float(box.get("width"))) for box in ranges(tree(one))] == [
        (scale.left, 20), (scale.left + 20, 16), (scale.left + 36, 136)]  # fmt: skip
    assert groups(tree(one), "letter")[0] == ["K", "E", "L"]
    narrow = scene(row(0, *(part(n * 8, n * 8 + 8) for n in range(80))))           # 80 ranges: 16 pixels each
    assert groups(tree(narrow), "letter")[0] == ["E"] * 80
    thin = scene(row(0, part(0, 1), part(1, 40)), row(1, part(0, 40)), row(2, part(0, 20), part(20, 40)))
    assert [len(letters) for letters in groups(tree(thin), "letter")[:3]] == [2, 1, 2]


def test_a_wrong_answer_has_a_red_box_around_its_tokens():
    one = scene(row(0, part(0, 5), part(5, 12), is_wrong=True, verdict="WRONG"))
    boxes = [box for box in tree(one).iter(f"{SVG}rect") if box.get("height") == "26"]
    scale = RunDrawing(one).scale
    assert [dict(box.items()) for box in boxes] == [{
        "x": f"{scale.left:g}", "y": "100", "width": f"{scale.width:g}", "height": "26", "fill": "none",
        "stroke": "var(--bad)", "stroke-width": "2"}]  # fmt: skip
    assert not [box for box in tree(scene(row(0))).iter(f"{SVG}rect") if box.get("height") == "26"]
    assert found(tree(one), kind="bad")[0] == "llama_cpp@b1, model GA: correct answers"
    assert found(tree(scene(row(0))), kind="bad") == []


def test_the_beginnings_of_micro_batches_are_lines():
    one = scene(row(0, part(0, 4), part(4, 3000), batches=(2, 1500)))
    line, _ = found(tree(one), "path", "split")                    # and that of the legend
    scale = RunDrawing(one).scale
    assert line.get("d") == f"M{scale.px(2):g} 102v22M{scale.px(1500):g} 102v22"
    assert line[0].text == "micro-batches begin at 2, 1,500"
    same = scene(row(0, part(0, 30_000), batches=(1, 2)))
    assert found(tree(same), "path", "split")[0].get("d").count("M") == 1
    assert not found(tree(scene(row(0))), "path", "split")


def labels(*rows):
    """Return the labels of the words of each row."""
    drawn = tree(scene(*rows))
    each = [group for group in drawn.iter(f"{SVG}g") if group.get("role") == "listitem"]
    return [[text for group in one if group.get("class") == "dim mid" for text in found(group)] for one in each]


def test_a_word_has_its_title_if_both_fit_above_its_tokens():
    words = Word("A", 0, 20, "system"), Word("LONGNAME", 20, 22), Word("B", 22, 25, "user"), Word("C", 25, 26)
    assert labels(row(0, part(0, 26), words=words)) == [["A system", "B", "C"]]
    (ticks,) = [path for path in found(tree(scene(row(0, part(0, 26), words=words))), "path", "thin")
                if "v-4" in path.get("d")]  # fmt: skip
    scale = RunDrawing(scene(row(0, part(0, 26), words=words))).scale
    assert ticks.get("d") == "".join(f"M{scale.px(n):g} 102v-4" for n in (0, 20, 22, 25))


def test_words_of_a_long_row_have_a_label_only_the_first_time():
    many = [Word(f"{chr(65 + n)}", 20 * n, 20 * n + 20) for n in range(MANY + 1)]
    rows = [row(n, part(0, 520), words=words) for n, words in enumerate((many[:MANY], many[:MANY], many, many[:3]))]
    names = [word.name for word in many]
    assert labels(*rows) == [names[:MANY], names[:MANY], names[MANY:], names[:3]]


def arrows(*rows):
    drawn = tree(scene(*rows))
    return [(path.get("d"), group[0].text) for group in drawn.iter(f"{SVG}g") for path in group
            if path.get("class") == "arrow" and group[0].text]  # fmt: skip


def test_arrows_lead_to_the_request_that_lost_the_tokens_or_to_the_removed_entry():
    first, second = row(0, entries=CacheContents((10,), saved=(10,))), row(1, entries=CacheContents(gone=(10,)))
    lost = part(4, 10, "again", "gone", 1, "LC-X", ("evicted", "entry of 10"))
    rows = first, second, row(2, part(0, 4), lost)
    drawn = RunDrawing(scene(*rows))
    x, column = f"{drawn.scale.px(4) + 3:g}", drawn.lanes.gone_at(1)
    head = "m-4 6l4 -6l4 6"
    assert arrows(*rows) == [(f"M{x} 250V234H{column:g}V192{head}", "6 lost at request 1")]
    slot = lost._replace(lost=("advanced", "state"))
    assert arrows(first, second, row(2, part(0, 4), slot)) == [(f"M{x} 250V224{head}", "6 lost at request 1")]
    assert arrows(first, second, row(2, part(0, 4), slot._replace(at=0)))[0][0] == f"M{x} 250V150{head}"


@pytest.mark.parametrize("stretch", [
    part(4, 10, "again", at=2), part(4, 10, "again", at=-1), part(4, 10, "evaluated", at=1),
])  # fmt: skip
def test_tokens_that_no_earlier_request_lost_have_no_arrow(stretch):
    assert arrows(row(0), row(1), row(2, part(0, 4), stretch)) == []


def test_positions_without_room_have_no_number_and_short_cuts_a_mark():
    for end, shown in ((500, ["0", "10", "500"]), (5000, ["0", "10"])):            # half of 5,000 is beyond the margin
        (head,) = groups(tree(scene(row(0, part(0, 1), part(1, 2), part(2, 10), part(10, end)))), "head")
        assert head == ["slot", "0", "prompt", "cache", *shown]
    one = scene(row(0, part(0, 10), part(10, 5000)))
    scale = RunDrawing(one).scale
    path, _ = (path for path in found(tree(one), "path", "thin") if "3 6m3" in path.get("d"))
    assert path.get("d") == f"M{(scale.px(10) + scale.px(5000)) / 2 - 4:.1f} 80l3 6m3 -6l3 6"


def test_a_row_has_its_name_and_its_description():
    one = row(2, text="S.A.B and the rest", slot=3, cache_n=4, reason="extends", rule="LC-R", read=("r",), why="w")
    drawn = tree(scene(one))
    assert groups(drawn, "name") == [["#2", "S.A.B and the rest"]]
    (item,) = [group for group in drawn.iter(f"{SVG}g") if group.get("role") == "listitem"]
    assert item[0].text == (
        "request 2: S.A.B and the rest; slot 3; 4 reused, 10 evaluated; extends; LC-R; OK; r; w")  # fmt: skip
    (bare,) = [group for group in tree(scene(row(0, slot=-1))).iter(f"{SVG}g") if group.get("role") == "listitem"]
    assert bare[0].text == "request 0: A; 0 reused, 10 evaluated; OK"
    names = [text for text in drawn.iter(f"{SVG}text") if text.text in ("#2", "S.A.B and the rest")]
    assert [(text.get("x"), text.get("y")) for text in names] == [("12", "117"), ("12", "132")]
