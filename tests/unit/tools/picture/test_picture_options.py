"""Picture options: what is drawn, together or apart, and with which text around it."""

from __future__ import annotations

from argparse import ArgumentParser
from types import SimpleNamespace

import pytest

import cachesim
from cachesim.base.errors import BadInput
from cachesim.tools.picture import picture_options
from cachesim.tools.picture.picture_options import (
    PictureOptions,
    add_pictures,
    check_one_scenario,
    recorder,
    wanted,
    write_pictures,
    write_scenes,
)
from cachesim.tools.run.pictured_runs import run_pictured
from tests.unit.tools.picture.test_svg import row, scene

NONE = {"html": "", "svg": "", "trace": ""}


def args(**given):
    return SimpleNamespace(**{**NONE, **{name: str(file) for name, file in given.items()}})


def test_options_are_files_and_any_of_them_asks_for_a_picture():
    parser = ArgumentParser()
    add_pictures(parser)
    assert vars(parser.parse_args([])) == NONE
    found = vars(parser.parse_args(["--html", "a", "--svg", "b", "--trace", "c"]))
    assert found == {"html": "a", "svg": "b", "trace": "c"}
    assert parser.format_usage().endswith("[--html FILE] [--svg FILE] [--trace FILE]\n")
    assert all(one.help for one in parser._actions)
    assert not wanted(args()) and all(wanted(args(**{name: "x"})) for name in NONE)


def test_a_run_is_observed_only_for_a_picture_and_its_events_for_a_page():
    assert recorder(args(), "llama_cpp@b11549") is None
    found = [recorder(args(**{name: "x"}), "llama_cpp@b11549").walk_recorder is not None for name in NONE]
    assert found == [True, False, False]


def test_a_picture_shows_one_scenario():
    check_one_scenario([])
    check_one_scenario(["a", "a"])
    with pytest.raises(BadInput, match="a picture can show one scenario only"):
        check_one_scenario(["a", "b"])


def test_each_option_writes_its_file(tmp_path, capsys):
    write_scenes(args(svg=tmp_path / "a", trace=tmp_path / "b"), [scene(row(0))], (), PictureOptions())
    assert (tmp_path / "a").read_text().startswith("<svg ")
    assert (tmp_path / "b").read_text().startswith('{"traceEvents"')
    assert capsys.readouterr().err == f"cachesim: wrote {tmp_path / 'a'}\ncachesim: wrote {tmp_path / 'b'}\n"
    write_scenes(args(html=tmp_path / "c"), [scene(row(0))], (), PictureOptions(note="a note"))
    assert "a note" in (tmp_path / "c").read_text() and len(list(tmp_path.iterdir())) == 3


def pictured(profile, line="S20.A9/S.B9", events=True):
    return run_pictured(cachesim.load(line, profile=profile, model="A"), profile, events)


@pytest.fixture
def written(monkeypatch):
    """Note the scenes, event logs and options that are written."""
    found = []
    monkeypatch.setattr(picture_options, "write_scenes", lambda *what: found.append(what[1:]))
    return found


def test_equal_runs_share_a_picture_unless_they_have_names(written):
    runs = [pictured("llama_cpp@b10587"), pictured("llama_cpp@b10587")]
    write_pictures(args(html="x"), runs)
    (scenes, told, shown), = written
    assert (len(scenes), len(told), [*scenes[0].same]) == (1, 1, ["llama_cpp@b10587"])
    assert shown == PictureOptions("cachesim run S20.A9/S.B9 -p llama_cpp@b10587 --model A -p llama_cpp@b10587")
    write_pictures(args(svg="x"), runs, PictureOptions("own command", names=["a", "b"]))
    scenes, told, shown = written[1]
    assert (len(scenes), told, shown) == (2, [], PictureOptions("own command", names=["a", "b"]))
    assert [one.same for one in scenes] == [[], []]


def test_engines_have_pictures_of_their_own(written):
    write_pictures(args(svg="x"), [pictured("llama_cpp@b10587"), pictured("mlx_lm@0.32.2")])
    assert [one.profile for one in written[0][0]] == ["llama_cpp@b10587", "mlx_lm@0.32.2"]


def test_a_page_has_a_slider_only_if_every_run_has_its_events(written):
    both = [pictured("llama_cpp@b10587"), pictured("mlx_lm@0.32.2", events=False)]
    write_pictures(args(html="x"), both)
    write_pictures(args(html="x"), both[:1])
    assert [len(told) for _, told, _ in written] == [0, 1]


def test_nothing_is_written_without_an_option_or_a_run(written):
    write_pictures(args(), [pictured("llama_cpp@b10587")])
    write_pictures(args(svg="x"), [])
    assert written == []
    with pytest.raises(BadInput):
        write_pictures(args(svg="x"), [SimpleNamespace(scenario=SimpleNamespace(id=name)) for name in "ab"])
