"""The pages of the site, before Sphinx builds them: what has a page, and where links lead."""

from __future__ import annotations

import html
import json
import re
import runpy
import shlex
from posixpath import dirname, join, normpath, relpath

import pytest

from cachesim.base import exits
from cachesim.engines.registry import ENGINES, profiles
from cachesim.pages.site.__main__ import main
from cachesim.pages.site.built_site import broken_links
from cachesim.pages.site.guide_pages import pictures_of
from cachesim.pages.site.paths import flag_path, line_path, release_path, report_path, rule_path, scenario_path
from cachesim.pages.site.scenario_pages import draw_scenario, known_scenarios
from cachesim.pages.site.site_sources import HERE, entries_script, site_pages
from tests.shared import ROOT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def pages():
    return {page.path: page for page in site_pages(known_scenarios())}


def test_links_between_pages_lead_to_pages(pages):
    lost = []
    for path, page in pages.items():
        prose = re.sub(r"^```.*?^```$", "", page.text, flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)\s:]+)\.md(?:#[^)]*)?\)", prose):
            if normpath(join(dirname(path), target)) not in pages:
                lost.append((path, target))
    assert lost == []


def test_every_rule_flag_line_release_scenario_and_report_has_a_page(pages):
    wanted = {scenario_path(one.id) for one in known_scenarios()} | {release_path(name) for name in profiles()}
    for name, engine in ENGINES.items():
        wanted |= {flag_path(name, flag.name) for flag in engine.manual.flags}
        wanted |= {line_path(name, kind) for kind in engine.log().meanings}
        for rules in engine.profiles.values():
            wanted |= {rule_path(value.rule) for value in rules.fields().values() if hasattr(value, "rule")}
    reported = {report.entry for one in known_scenarios() for report in one.reports}
    wanted |= {report_path(entry) for entry in reported}
    assert reported and wanted - pages.keys() == set()


def test_pictures_of_documents_are_found_and_exist(pages):
    shown = pictures_of(pages["guide/start"].text) | pictures_of(pages["lessons/2-one-token"].text)
    assert {"scenarios/pictures/read-again.svg", "scenarios/lessons/2-attention.svg"} <= shown
    assert [picture for picture in shown if not (ROOT / picture).is_file()] == []


def test_every_column_of_a_table_has_a_heading(pages):
    heads = [(path, head) for path, page in pages.items()
             for head in re.findall(r"^(\|.*)\n\|[ |:-]+$", page.text, re.M)]  # fmt: skip
    assert heads and [one for one in heads if "" in map(str.strip, one[1].strip("|").split("|"))] == []


def search_rows(pages):
    """Return the entries of the search box."""
    return json.loads(entries_script(pages).splitlines()[0].removeprefix("window.CACHESIM_ENTRIES = ").rstrip(";"))


def test_no_mark_of_markdown_or_of_a_docstring_is_left_in_a_sentence(pages):
    """Code stands between single backticks, or in a block."""
    marked = []
    for path, page in pages.items():
        if path.partition("/")[0] in ("rules", "flags", "lines", "engines", "releases", "scenarios", "terms"):
            prose = re.sub(r"^```.*?^```$", "", page.text, flags=re.S | re.M)
            prose = re.sub(r"(?<![\\`])`[^`]*[^`\\]`|`` .*? ``", "", prose)
            if "`" in prose:
                marked.append((path, prose[max(0, prose.index("`") - 40) :][:80]))
    assert marked == []
    assert "none if `rest` tokens" in pages["rules/SG-SCHED-RESERVE.CHUNK"].text
    assert ":values: none, `EAGLE`, `NGRAM`" in pages["flags/sglang-speculative_algorithm"].text
    assert "only the last `n_swa` positions" in pages["terms/SWA"].text
    assert "`" not in "".join(row["says"] for row in search_rows(pages.values()))


def listed_lines(page):
    return re.findall(r"^- `(.*)`$", page.text.partition("## Spellings")[2].partition("## ")[0], re.M)


def test_lines_are_listed_as_people_read_them(pages):
    lines = {path: listed_lines(page) for path, page in pages.items() if page.entry and page.entry.kind == "log line"}
    assert [path for path, found in lines.items() if not found or re.search(r"\{\}|,\}", "".join(found))] == []
    assert [path for path in lines if "{}" in pages[path].text or "{}" in pages[path].entry.title] == []
    assert lines["lines/sglang-cache_hit_rate"] == ["sglang:cache_hit_rate{...} {cache_hit_rate}"]
    assert lines["lines/vllm-num_requests_running"] == [
        'vllm:num_requests_running{...engine="{engine}"...} {num_requests_running}']  # fmt: skip
    assert "ctx_shift is not supported by ..." in lines["lines/ik_llama-start_shift"]
    assert pages["lines/sglang-reply_usage"].entry.title.startswith('"prompt_tokens":{n_tokens},')
    assert "\n\ncache\\_n of the prompt" in pages["lines/sglang-reply_usage"].text
    assert "\n\nState of the engine" in pages["lines/vllm-status"].text


def test_values_of_a_rule_set_are_the_same_in_every_build(pages):
    """The members of a set have no order of their own: with another seed of the hashes they are printed otherwise."""
    released = {path: page.text for path, page in pages.items() if path.startswith("releases/")}
    assert [path for path, text in released.items() if re.search(r"frozenset|\{'|<[a-z_.]+ object at", text)] == []
    text = released["releases/sglang-0.5.23"]
    assert "| `queue_policies` | `dfs-weight`, `fcfs`, `lof`, `lpm`, `shortest-prefill-first` |" in text
    assert "| `outside` | `port = 9931`, `preserve_reasoning = on` |" in released["releases/llama_cpp-b11549"]
    assert "| `slot_by_lcp" not in text and "slot_by_lcp = f_keep, thold" in released["releases/ik_llama-1008"]


@pytest.mark.parametrize("name", ["ik-empty-prompt", "llama-24143-entry-removed-dense"])
def test_the_command_of_a_page_with_events_names_no_file_of_the_builder(name):
    [scenario] = [one for one in known_scenarios() if one.id == name]
    drawn = draw_scenario(scenario.file)
    command = html.unescape(re.search(r'<code id="command">(.*?)</code>', drawn.html)[1])
    assert shlex.split(command)[:4] == ["cachesim", "run", name, "-p"]
    assert [*scenario.profiles] == shlex.split(command)[4::2]
    assert str(ROOT) not in drawn.html + drawn.svg


def test_a_line_that_lacks_parts_of_another_is_not_listed_beside_it(pages):
    status = pages["lines/vllm-status"]
    assert len(listed_lines(status)) == 4 and "some of these parts are missing" in status.text
    assert len({*listed_lines(status)}) == len(listed_lines(status))
    assert "parts are missing" not in pages["lines/llama_cpp-slot_by_id"].text
    for path, page in pages.items():
        if page.entry and page.entry.kind == "log line" and "{}}" not in "".join(page.entry.templates):
            whole = [line.replace("...", " ").replace(",", " ").split() for line in listed_lines(page)]
            for template in page.entry.templates:
                words = template.replace("{}", " ").replace("...", " ").replace(",", " ").replace(" }", "}").split()
                assert any(is_within(words, line) for line in whole), (path, template)


def is_within(words, others):
    """True if words stand among others in the same order."""
    rest = iter(others)
    return all(word in rest for word in words)


def test_the_search_box_knows_every_page_but_lists(pages):
    known = {row["path"] for row in search_rows(pages.values())}
    assert {path for path in pages if path not in known and not path.endswith("index")} == set()


def test_broken_links_of_a_built_site_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">a</h1><a href="b.html#x"></a><a href="#top"></a><a href="https://x.y/"></a>')
    (tmp_path / "b.html").write_text('<img src="c.svg"><a href="a.html"></a>')
    assert list(broken_links(tmp_path)) == ["a.html: b.html#x", "b.html: c.svg"]


class SphinxStandIn:
    """What the site's configuration uses of Sphinx: events, and the table of contents by page. The navigation of a page
    is the relative address of each listed page. ``built``: the pages whose navigation was built."""

    def __init__(self, listed):
        self.config = self.env = self
        self.root_doc = "index"
        self.toctree_includes = {"index": listed}
        self.hooks = {}
        self.priorities = {}
        self.built = []

    def connect(self, event, hook, priority=500):
        self.hooks[event] = hook
        self.priorities[event] = priority

    def navigation(self, page, **options):
        """Return what a page's template receives."""

        def build(**options):
            self.built.append(page)
            return [relpath(target, dirname(page) or ".") for target in self.toctree_includes["index"]]

        context = {"toctree": build}
        self.hooks["html-page-context"](self, page, "page.html", context, None)
        return context["toctree"](**options)


def test_pages_share_their_navigation_where_its_links_lead_to_the_same_pages():
    listed = ["guide/start", "rules/index"]
    app = SphinxStandIn(listed)
    runpy.run_path(str(HERE / "conf.py"))["setup"](app)
    unlisted = ["rules/one", "rules/two", "search", "genindex", "api/deep/one", "rules/three", "flags/one"]
    for page in [*unlisted, *listed, "index"]:
        links = app.navigation(page, collapse=False, maxdepth=2)
        assert [normpath(join(dirname(page), link)) for link in links] == listed, page
    assert app.built == ["rules/one", "search", "api/deep/one", "flags/one", *listed, "index"]
    app.navigation("rules/two", collapse=True, maxdepth=2)
    assert app.built[-1] == "rules/two"
    assert app.priorities["html-page-context"] < 500, "the theme asks for the navigation at 500"


def test_a_docstring_is_read_as_plain_text_with_code():
    app = SphinxStandIn([])
    runpy.run_path(str(HERE / "conf.py"))["setup"](app)
    lines = ["Names, ``engine@version``, of *args: a@b.", "", "    x = a * b", "", "Or ``*`` or c*d."]
    app.hooks["autodoc-process-docstring"](app, "function", "f", None, None, lines)
    assert lines == [
        "Names, ``engine@version``, of \\*args: a\\@b.", "", "", "::", "", "    x = a * b", "", "",
        "Or ``*`` or c\\*d.",
    ]  # fmt: skip


def test_a_folder_that_is_no_site_is_not_replaced(tmp_path):
    file = tmp_path / "letter.txt"
    file.write_text("mine")
    assert main(["--out", str(tmp_path)]) == exits.BAD_INPUT
    assert file.read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("mine")
    assert main(["--out", str(tmp_path / "letter.txt" / "site")]) == exits.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
