"""Picture options: what is drawn, together or apart, and with which text around it."""

from __future__ import annotations

import re
from argparse import ArgumentParser

import pytest

import cachesim
from cachesim.base.errors import BadInput
from cachesim.tools.picture.picture_options import (
    PictureFiles,
    PictureOptions,
    add_pictures,
    check_one_scenario,
    picture_files,
    recorder,
    write_pictures,
    write_scenes,
)
from cachesim.tools.run.pictured_runs import draw_text, run_pictured
from tests.unit.tools.picture.test_svg import row, scene
from tests.unit.tools.picture.whole_pages import body

NONE = {"html": "", "svg": "", "trace": ""}


def files(**given):
    return PictureFiles(**{name: str(file) for name, file in given.items()})


def test_options_are_files_and_any_of_them_asks_for_a_picture():
    parser = ArgumentParser()
    add_pictures(parser)
    assert vars(parser.parse_args([])) == NONE
    found = picture_files(parser.parse_args(["--html", "a", "--svg", "b", "--trace", "c"]))
    assert found == PictureFiles(html="a", svg="b", trace="c")
    assert parser.format_usage().endswith("[--html FILE] [--svg FILE] [--trace FILE]\n")
    assert not files().are_wanted() and all(files(**{name: "x"}).are_wanted() for name in NONE)


def test_a_run_is_observed_only_for_a_picture_and_its_events_for_a_page():
    assert recorder(files(), "llama_cpp@b11549") is None
    found = [recorder(files(**{name: "x"}), "llama_cpp@b11549").walk_recorder is not None for name in NONE]
    assert found == [True, False, False]


def test_a_picture_shows_one_scenario():
    check_one_scenario([])
    check_one_scenario(["a", "a"])
    with pytest.raises(BadInput):
        check_one_scenario(["a", "b"])


def test_each_option_writes_its_file(tmp_path, capsys):
    write_scenes(files(svg=tmp_path / "a", trace=tmp_path / "b"), [scene(row(0))], (), PictureOptions())
    assert (tmp_path / "a").read_text().startswith("<svg ")
    assert (tmp_path / "b").read_text().startswith('{"traceEvents"')
    written = [line.split()[-1] for line in capsys.readouterr().err.splitlines()]
    assert written == [str(tmp_path / "a"), str(tmp_path / "b")]
    write_scenes(files(html=tmp_path / "c"), [scene(row(0))], (), PictureOptions(note="a note"))
    assert "a note" in (tmp_path / "c").read_text() and len(list(tmp_path.iterdir())) == 3


def pictured(profile, line="S20.A9/S.B9", events=True):
    return run_pictured(cachesim.load(line, profile=profile, model="A"), profile, events)


def anchors(file):
    """Return the numbers of the pictures in a file, by the anchors of their first request."""
    return re.findall(r'id="(?:p(\d+)-)?r0"', file.read_text())


def test_equal_runs_share_a_picture_unless_they_have_names(tmp_path):
    runs, svg, page = [pictured("llama_cpp@b10587"), pictured("llama_cpp@b10587")], tmp_path / "a", tmp_path / "b"
    write_pictures(files(svg=svg, html=page), runs)
    assert anchors(svg) == [""]
    assert "cachesim run S20.A9/S.B9 -p llama_cpp@b10587 --model A -p llama_cpp@b10587" in page.read_text()
    write_pictures(files(svg=svg, html=page), runs, PictureOptions("own command", names=["now", "then"]))
    assert anchors(svg) == ["", "1"]
    assert all(word in page.read_text() for word in ("own command", ">now", ">then"))


def test_engines_have_pictures_of_their_own(tmp_path):
    svg = tmp_path / "a"
    write_pictures(files(svg=svg), [pictured("llama_cpp@b10587"), pictured("mlx_lm@0.32.2")])
    drawn = svg.read_text()
    assert anchors(svg) == ["", "1"] and drawn.index("llama_cpp@b10587") < drawn.index("mlx_lm@0.32.2")


def test_a_page_has_a_slider_only_if_every_run_has_its_events(tmp_path):
    both, page = [pictured("llama_cpp@b10587"), pictured("mlx_lm@0.32.2", events=False)], tmp_path / "a"
    for runs, has_slider in ((both, False), (both[:1], True)):
        write_pictures(files(html=page), runs)
        assert ("\nlog: " in body(page.read_text())) is has_slider


def test_nothing_is_written_without_an_option_or_a_run(tmp_path):
    write_pictures(files(), [pictured("llama_cpp@b10587")])
    write_pictures(files(svg=tmp_path / "x"), [])
    assert not list(tmp_path.iterdir())


def test_text_is_drawn_under_its_first_rule_set_with_a_command_for_its_line(tmp_path):
    text = ("id='x'\ntitle='t'\nwhy='w'\nsource=['x']\nengine='llama_cpp'\nmodel='A'\n"
            "profiles=['llama_cpp@b9518', 'llama_cpp@b10587']\n[words]\nA=5\n[[request]]\nprompt='A'\n")
    page = tmp_path / "x.html"
    draw_text(files(html=page), "")
    assert not page.exists()
    draw_text(files(html=page), text, PictureOptions("another command", note="a note"))
    shown = page.read_text()
    assert "cachesim run A5 -p llama_cpp@b9518 --model A" in shown and "another command" not in shown
    assert "a note" in shown and "b10587" not in shown
