"""Real servers as commands use them, without a server."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.cli import real_runs
from cachesim.cli.real_runs import RealSearch, RealServers


@pytest.fixture
def calls(monkeypatch):
    """Replace what reaches real servers; return the calls."""
    made = []
    monkeypatch.setattr(real_runs, "find_servers", lambda *words: made.append(("find", *words)) or ["one", "two"])
    monkeypatch.setattr(real_runs, "compare_cases", lambda *words: made.append(("compare", *words)) or ["x", "y"])
    monkeypatch.setattr(real_runs, "comparison_data", "data of {}".format)
    monkeypatch.setattr(real_runs, "progress", lambda found, total, label: made.append((total, label)) or found)
    return made


def servers(real="b1,b2", install=False, gguf=None):
    return RealServers(Namespace(real=real, install=install, gguf=gguf))


def test_servers_are_found_once(calls):
    found = servers(install=True)
    found.require()
    assert found.servers == ["one", "two"] and calls == [("find", "b1,b2", True)]


@pytest.mark.parametrize("use", [lambda found: found.require(), lambda found: found.bisect(None)])
def test_a_model_that_does_not_exist_is_refused_first(calls, use, tmp_path):
    with pytest.raises(BadInput, match="no such model"):
        use(servers(gguf=tmp_path / "none.gguf"))
    assert calls == []
    (tmp_path / "one.gguf").write_text("")
    servers(gguf=tmp_path / "one.gguf").require()
    assert len(calls) == 1


def test_each_case_is_compared_on_each_server(calls):
    assert servers(gguf=Path("m")).compare(["a", "b", "c"]) == ["data of x", "data of y"]
    assert calls == [("find", "b1,b2", False), ("compare", ["a", "b", "c"], ["one", "two"], Path("m")),
                     (6, "real servers")]  # fmt: skip


def test_a_bisection_is_over_the_wheels_of_the_argument(calls, monkeypatch):
    monkeypatch.setattr(real_runs, "wheels_between", lambda text: [text])
    monkeypatch.setattr(real_runs, "bisect_real", lambda *words: words)
    monkeypatch.setattr(real_runs, "history_data", lambda found: {"found": found})
    assert servers("b1..b9", install=True).bisect("case") == {"found": ("case", ["b1..b9"], True, None)}


def test_a_search_on_each_server_has_the_plan_of_the_command(calls, monkeypatch):
    ran = []
    monkeypatch.setattr(real_runs, "search_real", lambda *words: ran.append(words))
    monkeypatch.setattr(real_runs, "RealTally", lambda server: Namespace(data=lambda: {"server": server}))
    found = servers().search(7, ("A",), True)
    assert [one.data() for one in found] == [{"server": "one"}, {"server": "two"}]
    assert found[0].plan == found[1].plan and tuple(found[0].plan) == (7, ("A",), True)
    RealSearch("tally", "plan").run(3, bool)
    assert ran == [("tally", "plan", 3, bool)]


def test_reports_are_printed(monkeypatch):
    printed = []
    monkeypatch.setattr(real_runs, "show", lambda *parts: printed.append(parts))
    for name in ("real_report", "history_report", "search_report"):
        monkeypatch.setattr(real_runs, name, f"{name} {{}}".format)
    monkeypatch.setattr(real_runs, "between_builds", lambda compared: ["between"])
    found = servers()
    found.show(["a", "b"])
    found.show_history("h")
    found.show_search(["s", "t"])
    assert printed == [("real_report a", "real_report b", "between", f"  {real_runs.LEGEND}\n"),
                       ("history_report h", ""), ("search_report s", "search_report t")]  # fmt: skip


class Server:
    """A server that is ready, or raises."""

    def __init__(self, server, model, flags):
        self.words, self.is_stopped = (server, model, flags), False

    def wait_ready(self):
        if self.words[2] == ["bad"]:
            Server.failed = self
            raise BadInput("it does not start")

    def stop(self):
        self.is_stopped = True


def test_the_first_server_is_started_and_ended_if_it_does_not_get_ready(calls, monkeypatch):
    monkeypatch.setattr(real_runs, "Serving", Server)
    started = servers().serve("GA", ["-np", "2"])
    assert started.words == ("one", "GA", ["-np", "2"]) and not started.is_stopped
    assert servers(gguf=Path("m.gguf")).serve("GA", []).words[1] == "m.gguf"
    with pytest.raises(BadInput, match="it does not start"):
        servers().serve("GA", ["bad"])
    assert Server.failed.is_stopped
