"""Property: `run` loads and runs whatever `import -o` writes, from logs and from request bodies, whatever their names
and contents; and it reuses what the import's simulation reused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.cli.main import main
from cachesim.engines.registry import profiles
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.load import load_text
from cachesim.scenarios.runner import AnswerCollector, play
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.server_logs.import_log import import_log
from tests.unit.tools.request_bodies.test_media_parts import CHANGES, RICH, with_change

LOGS = sorted(Path(__file__).parent.glob("*.log"))
SHORT = Path(__file__).with_name("default_verbosity.log")


def reused(text):
    """Return the tokens that each request of a scenario file reuses."""
    scenario = load_text(text, profiles().keys())
    answers = AnswerCollector()
    play(scenario, scenario.profiles[0], "none", answers)
    return [answers.found[number][1].cache_n for number in range(len(scenario.steps))]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_run_accepts_the_scenario_of_a_log(log):
    data, text = import_log(log)
    if text:
        found = reused(text)
        rows = [row for row in data["requests"] if row["step"] >= 0]
        assert [found[row["step"]] for row in rows] == [row["simulated"] for row in rows]


@pytest.mark.part(4)
@pytest.mark.parametrize("log", [pytest.param(log, marks=pytest.mark.long if "parallel" in log.name else ())
                                 for log in LOGS], ids=lambda log: log.name)  # fmt: skip
def test_run_accepts_the_scenario_of_an_excerpt(log, tmp_path):
    lines = log.read_text("utf-8").splitlines(keepends=True)
    rng = Rng(7, "cuts", log.name)
    for number in range(2):
        first = rng.below(len(lines))
        part = tmp_path / f"{number}.log"
        part.write_text("".join(lines[first : first + 1 + rng.below(len(lines))]), "utf-8")
        try:
            _, text = import_log(part)
        except Exception as error:                            # not a log of a known server
            assert type(error).__name__ == "BadInput"
            continue
        if text:
            reused(text)


@pytest.mark.parametrize("seed", range(6))
def test_run_accepts_the_scenario_of_bodies(seed, tmp_path):
    rng = Rng(seed, "bodies")
    bodies = []
    for _ in range(1 + rng.below(6)):
        name, _, keys = CHANGES[rng.below(len(CHANGES))]
        bodies.append(with_change(RICH[name], keys) if rng.chance(60) else RICH[name])
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in bodies), "utf-8")
    data, text = import_bodies([file], ImportOptions(with_text=rng.chance(50)))
    assert reused(text) == [row["simulated"] for row in data["requests"]]


@pytest.mark.part(4)
@pytest.mark.parametrize("name", [
    "a b.log", "Über.log", "-.log", "'quoted'\".log", "x" * 200 + ".log", "a#b=c.log",
    "line\nend.log",
])  # fmt: skip
def test_names_of_files_become_ids(name, tmp_path):
    log = tmp_path / name
    log.write_bytes(SHORT.read_bytes())
    _, text = import_log(log)
    assert load_text(text, profiles().keys()).steps


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["x.y.toml", "no suffix", "-o.toml"])
def test_files_that_import_writes_run(name, tmp_path, capsys):
    out = tmp_path / name
    assert main(["import", str(SHORT), "-o", str(out), "-q"]) == 0
    capsys.readouterr()
    assert main(["run", str(out), "--json", "--provenance"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["runs"]
