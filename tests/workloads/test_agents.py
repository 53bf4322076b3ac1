"""Tests of the page about settings for agents: it has what the stored cells say, and cells can be run again."""

import json

import pytest

from cachesim.tools.advise.agent_search import AgentSearch
from cachesim.tools.advise.agent_workload import recorded_workload
from cachesim.tools.workload.shipped_sessions import shipped_sessions
from tests.workloads import agents
from tests.workloads.agents import LINES, LONGEST, MODELS, PAGE, PROFILE, AgentCell, every, main, page, read, run_cell

MEASURED = ("best", "next", "tried", "excluded", "wrong_settings", "workload", "scale")


def test_the_page_has_what_the_cells_say():
    lines = read(LINES)
    assert set(lines) == set(every())
    assert PAGE.read_text("utf-8") == page(lines)


def test_the_cells_took_less_than_an_hour():
    assert sum(line["seconds"] for line in read(LINES).values()) < 3600


@pytest.mark.part(3)
@pytest.mark.parametrize("kind", MODELS)
def test_a_setting_of_a_cell_costs_what_the_cell_says(kind):
    """Scaled, because that takes a second."""
    of_kind = [(cell, one) for cell, line in read(LINES).items() for one in line["next"] if cell.kind == kind]
    cell, one = next((cell, one) for cell, one in of_kind if one["scale"] > 1 and not one["less_precise"])
    load = recorded_workload(shipped_sessions(), "recorded sessions", cell.clients, LONGEST)
    search = AgentSearch(PROFILE, MODELS[kind], cell.gib << 30, cell.clients, load)
    options = {option["name"]: option["value"] for option in one["options"]}
    (found,) = [setting for setting in search.fitted({}) if setting.options == options]
    cost = search.cost(found, range(len(load.servers)), search.scale)
    assert (cost.evaluated, cost.prompt, cost.least, cost.unanswered, found.total) == tuple(
        one[name] for name in ("evaluated", "prompt_tokens", "bound", "unanswered", "bytes"))


def of_line(again, line):
    """Return the numbers of a search that the stored line has: keys may have come since it was written."""
    if isinstance(line, dict):
        return {name: of_line(again[name], value) for name, value in line.items()}
    if isinstance(line, list) and len(line) == len(again):
        return [of_line(*pair) for pair in zip(again, line, strict=True)]
    return again


@pytest.mark.long
def test_a_cell_is_run_again():
    one = AgentCell("attention", 1, 128)
    again, line = json.loads(json.dumps(run_cell(one, {}))), read(LINES)[one]
    assert {name: of_line(again[name], line[name]) for name in MEASURED} == {name: line[name] for name in MEASURED}


def test_cells_that_are_there_are_not_run_again(tmp_path, monkeypatch):
    lines, target, ran = tmp_path / "agents.jsonl", tmp_path / "agents.md", []
    whole = LINES.read_text("utf-8").splitlines(keepends=True)
    lines.write_text("".join(whole[:-1]) + whole[-1][:40] + "\n", "utf-8")
    missing = AgentCell(*(json.loads(whole[-1])[name] for name in ("kind", "clients", "gib")))
    monkeypatch.setattr(agents, "run_cell", lambda one, known: ran.append(one) or json.loads(whole[-1]))
    which = ["--only", missing.kind, "--clients", str(missing.clients)]
    main(["--lines", str(lines), "--page", str(target), *which])
    assert ran == [missing]
    assert target.read_text("utf-8") == PAGE.read_text("utf-8")


def test_a_missing_cell_is_marked():
    lines = read(LINES)
    del lines[AgentCell("window", 1, 64)]
    assert "## Window (gpt-oss)" in page(lines) and page(lines).count("| 1 | 64 | not run |  |  |  |") == 1
