"""Comparison of two small trees with the sources of our rules."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from tests.upstream.__main__ import in_force, main, missed
from tests.upstream.compare import CHANGED, LOST, MOVED, SAME, Finding, Side, differences, judge
from tests.upstream.sources import Item, Place, places, rules_of
from tests.upstream.trees import ROOT_FILE, build_of, read_tree

OLD = {
    ROOT_FILE: """
struct impl {
    int limit() { return 3; }
    void big() {
        if (first) { one(); }
        if (second) { two(); }
        third();
    }
    void old_name() { same(); }
};
""",
    "common/common.cpp": "void moved() { go(); }",
}
NEW = {
    ROOT_FILE: """
struct impl {
    int limit() { return 4; }
    void big() {
        if (first) { one(); } // told
        if (second) { two(2); }
        if (fresh) { extra(); }
        third();
    }
    void new_name() { same(); }
    void added() {}
    void moved() { go(); }
};
""",
    "common/common.cpp": "",
}


@pytest.mark.parametrize("place, state", [
    (Place(ROOT_FILE, "limit"), CHANGED),
    (Place(ROOT_FILE, "impl::limit"), CHANGED),
    (Place(ROOT_FILE, "big"), CHANGED),
    (Place(ROOT_FILE, "big", ("first {",)), SAME),
    (Place(ROOT_FILE, "big", ("second",)), SAME),
    (Place(ROOT_FILE, "big", ("second {",)), CHANGED),
    (Place(ROOT_FILE, "big", ("first {", "second {")), CHANGED),
    (Place(ROOT_FILE, "big", ("fresh",)), MOVED),
    (Place(ROOT_FILE, "big", ("nothing",)), LOST),
    (Place(ROOT_FILE, "old_name"), MOVED),
    (Place(ROOT_FILE, "none"), LOST),
    (Place("common/common.cpp", "moved"), SAME),
])
def test_states_of_places(place, state):
    [finding] = judge([Item("X", "x", (place,))], Side(OLD), Side(NEW))
    assert finding.states == ((place, state),)


def test_a_symbol_that_was_renamed_is_compared_under_its_later_name():
    old, new = {"common/common.cpp": "int a() { return 1; }"}, {"common/common.cpp": "int b() { return 2; }"}
    [finding] = judge([Item("X", "x", (Place("common/common.cpp", "a", later="b"),))], Side(old), Side(new))
    assert finding.any(CHANGED)


def test_changes_that_are_not_a_source_of_any_rule():
    items = [Item("X", "x", (Place(ROOT_FILE, "big", ("second {",)), Place(ROOT_FILE, "limit")))]
    told = {one.symbol: one for one in differences(Side(OLD), Side(NEW), items)}
    assert {name: one.kind for name, one in told.items()} == {
        "impl::limit": "changed", "impl::big": "changed", "impl::old_name": "gone", "impl::new_name": "new",
        "impl::added": "new", "impl::moved": "new", "moved": "gone",
    }
    assert told["impl::limit"].items == ("X",) and not told["impl::limit"].open
    assert told["impl::big"].open == ("if (fresh) { extra(); }",)


@pytest.mark.parametrize("text, told", [
    ("tools/a.cpp f (3f545be), since #1", [Place("tools/a.cpp", "f")]),
    ('tools/a.cpp f "x y" "z {" and g (b1)', [Place("tools/a.cpp", "f", ("x y", "z {")), Place("tools/a.cpp", "g")]),
    ("tools/a.cpp f, b.h C::g; history", [Place("tools/a.cpp", "f"), Place("tools/b.h", "C::g")]),
    ("tools/a.cpp old, later recent (b1)", [Place("tools/a.cpp", "old", later="recent")]),
    ("tools/a.cpp (b1), before #2", []),
])
def test_sources_are_read_into_places(text, told):
    assert list(places(text)) == told


@pytest.mark.parametrize("name, build", [
    ("xllamacpp-2026.10.11549", 11549), ("xllamacpp-2026.9.11063.tar.gz", 11063), ("llama.cpp-b10587", 10587), ("x", 0),
])
def test_the_build_of_a_tree_is_in_its_name(name, build, tmp_path):
    assert build_of(tmp_path / name) == build


def test_the_rules_in_force_are_those_of_the_build_or_older():
    assert in_force(11063) == "llama_cpp@b11063" and in_force(11062) == "llama_cpp@b10809"


def folder(path, tree):
    for name, text in tree.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def test_folders_and_sdists_are_read_alike(tmp_path):
    inside = folder(tmp_path / "x-2026.9.11063" / "thirdparty" / "llama.cpp", OLD)
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "x-2026.9.11063", "x")
        link = tarfile.TarInfo("x/thirdparty/llama.cpp/common/common.h")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link, io.BytesIO())
    assert read_tree(inside) == read_tree(inside.parents[1]) == read_tree(tmp_path / "x.tar.gz") == OLD


@pytest.mark.parametrize("name", ["empty", "no.tar.gz", "missing"])
def test_a_path_without_a_tree_is_refused(name, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.tar.gz").write_text("text")
    with pytest.raises(BadInput):
        read_tree(tmp_path / name)
    assert main([str(tmp_path / name), str(tmp_path / name)]) == 2
    assert name in capsys.readouterr().err


def test_known_differences_that_were_not_found_are_reported():
    every = missed([], "llama_cpp@b11063", "llama_cpp@b11549")
    assert {"state_form", "file_ckpts"} <= set(every)
    place = Place(ROOT_FILE, "limit")
    found = [Finding(Item("x", field, (place,)), ((place, CHANGED),)) for field in every[1:]]
    unchanged = Finding(Item("x", every[0], (place,)), ((place, SAME),))
    assert missed([*found, unchanged], "llama_cpp@b11063", "llama_cpp@b11549") == every[:1]


LONG = {"update_slots", "pre_decode", "post_decode", "process_single_task", "process_token", "load_model", "decode"}


def test_a_mark_selects_a_region_of_a_long_function():
    items = [item for name in ("b10587", "b11549") for item in rules_of(f"llama_cpp@{name}")]
    assert [item.name for item in items if any(one.symbol in LONG and not one.marks for one in item.places)] == []


def test_every_rule_in_force_names_a_place():
    names = ("b10587", "b11549")
    assert [item.name for name in names for item in rules_of(f"llama_cpp@{name}") if not item.places] == []


@pytest.mark.long
def test_a_closed_pipe_gives_no_traceback(tmp_path):
    """A closed pipe, as with ``make upstream ... | head``."""
    for name, body in (("old", "return 1;"), ("new", "return 2;")):
        root = tmp_path / name / ROOT_FILE
        root.parent.mkdir(parents=True)
        root.write_text(OLD[ROOT_FILE])
        file = tmp_path / name / "src" / "llama-kv-cache.cpp"
        file.parent.mkdir(parents=True)
        file.write_text("".join(f"int seq_rm_{i}() {{\n    {body}\n}}\n" for i in range(3000)))
    words = [sys.executable, "-m", "tests.upstream", str(tmp_path / "old"), str(tmp_path / "new")]
    here, pipe = Path(__file__).parents[2], subprocess.PIPE
    with subprocess.Popen(words, cwd=here, stdout=pipe, stderr=pipe, text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == exits.BROKEN_PIPE
