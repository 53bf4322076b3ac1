"""Tests of the tables ``[[report]]``: reading, errors, and files that cachesim writes into."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import profiles
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import BugReport
from tests.unit.cli.test_commands import call
from tests.unit.scenarios.samples import GOOD

OLD, NEW = "llama_cpp@b9473", "llama_cpp@b10587"
TABLE = {"entry": '"LC-06"', "rule": '"LC-CKPT-NEED"', "fault": f'"{OLD}"', "fixed": f'"{NEW}"', "request": "1",
         "claim": '"strict"'}  # fmt: skip
READ = BugReport("LC-06", "LC-CKPT-NEED", OLD, NEW, 1, "strict", "")


def written(tmp_path, **changed):
    """Write a scenario with two tables: a good one, and one with changed keys (None = missing)."""
    tables = [TABLE, {key: value for key, value in (TABLE | changed).items() if value is not None}]
    text = "".join("\n[[report]]\n" + "".join(f"{key} = {value}\n" for key, value in table.items()) for table in tables)
    file = tmp_path / "good.toml"
    file.write_text(GOOD.replace(f'profiles = ["{NEW}"]', f'profiles = ["{OLD}", "{NEW}"]') + text)
    return file


def test_it_is_read(tmp_path):
    file = written(tmp_path, rule='"LC-CKPT-NEED.TH3"', claim='"partly"', lacks='"its cause"')
    part = READ._replace(rule="LC-CKPT-NEED.TH3", claim="partly", lacks="its cause")
    assert load(file, frozenset(profiles())).reports == (READ, part)


def test_a_part_may_lack_its_rule(tmp_path):
    file = written(tmp_path, rule=None, claim='"partly"', lacks='"its rule"')
    assert load(file).reports[1].rule == ""


def test_most_scenarios_have_none(tmp_path):
    file = tmp_path / "good.toml"
    file.write_text(GOOD)
    assert load(file).reports == ()


@pytest.mark.parametrize("changed, words", [
    ({"entry": None}, "entry is missing"),
    ({"entry": '" "'}, "entry must not be empty"),
    ({"rule": '"LC-CKPT-NEEDS"'}, "llama_cpp@b9473 has no rule 'LC-CKPT-NEEDS'.*did you mean 'LC-CKPT-NEED'"),
    ({"rule": '"LC-CKPT-NEED.TH4"'}, "llama_cpp@b9473 has no rule 'LC-CKPT-NEED.TH4'.*did you mean"),
    ({"rule": '"LC"'}, "has no rule 'LC'"),
    ({"rule": None}, "rule is missing"),
    ({"fault": '"llama_cpp@b9474"'}, "fault is 'llama_cpp@b9474', which is not in profiles.*did you mean"),
    ({"fixed": '"llama_cpp@b8916"'}, "fixed is 'llama_cpp@b8916', which is not in profiles"),
    ({"fixed": f'"{OLD}"'}, "fault and fixed are both 'llama_cpp@b9473'"),
    ({"request": "2"}, "unknown request 2.*0 to 1"),
    ({"request": "true"}, "request must be an integer"),
    ({"claim": '"strictly"'}, "unknown claim 'strictly'.*strict or partly"),
    ({"claim": '"partly"'}, "lacks belongs to claim"),
    ({"lacks": '"something"'}, "lacks belongs to claim"),
    ({"since": '"b9473"'}, "unknown key 'since'"),
])
def test_it_is_refused_with_its_line(tmp_path, changed, words):
    file = written(tmp_path, **changed)
    with pytest.raises(BadInput, match=words) as caught:
        load(file, frozenset(profiles()))
    assert "\n" not in str(caught.value)
    lines = file.read_text().splitlines()
    assert caught.value.line > lines.index("[[report]]") + len(TABLE)            # in the second table


def test_a_rule_set_of_a_file_of_rules_may_have_any_rule(tmp_path):
    file = written(tmp_path)
    text = file.read_text().replace(OLD, "llama_cpp@own").replace("LC-CKPT-NEED", "MY-RULE")
    file.write_text(text)
    found = READ._replace(fault="llama_cpp@own", rule="MY-RULE")
    assert load(file).reports == (found, found)


def test_completing_a_file_keeps_its_reports(tmp_path, capsys):
    file = written(tmp_path)
    call(capsys, "run", file, "--complete")
    assert f'[expect."{OLD}"]' in file.read_text()
    assert load(file, frozenset(profiles())).reports == (READ, READ)
