"""``cachesim fuzz --real``: its exit code, its time and an interrupt, with servers in this process."""

from __future__ import annotations

import json
from argparse import ArgumentParser

import pytest

from cachesim.base import exits
from cachesim.tools.search import campaign_jobs, fuzz_command


class Servers:
    """Real servers on which conversations differ as often as ``differences`` says; each has a search."""

    def __init__(self, *differences, at=lambda number: None):
        self.searches, self.shown = [Drawing(one, at) for one in differences], []

    def require(self):
        pass

    def search(self, seed, narrowed, shrinks):
        self.asked = seed, narrowed, shrinks
        return self.searches

    def show_search(self, found):
        self.shown.append(found)


class Drawing:
    def __init__(self, differences, at):
        self.differences, self.at, self.ran = differences, at, []

    def run(self, number, stop):
        self.ran.append((number, stop()))
        self.at(number)

    def data(self):
        return {"conversations": len(self.ran), "undecided": [], "differences": [1] * self.differences}


def fuzz(servers, *words):
    parser = ArgumentParser()
    fuzz_command.add_arguments(parser)
    args = parser.parse_args(["--real", "b1", *words])
    args.real_runs = lambda args: servers
    return fuzz_command.run(args)


def test_a_difference_on_any_server_is_exit_1(capsys):
    alike, other = Servers(0, 0), Servers(0, 2)
    assert fuzz(alike, "--examples", "3", "--model", "GA", "--seed", "4") == exits.HOLDS
    assert [[number for number, _ in one.ran] for one in alike.searches] == [[0, 1, 2]] * 2
    assert alike.asked == (4, ("GA",), True) and len(alike.shown) == 1
    assert fuzz(other, "--no-shrink", "--json") == exits.BROKEN
    assert len(other.searches[0].ran) == fuzz_command.REAL_EXAMPLES and other.asked[2] is False
    assert [len(one["differences"]) for one in json.loads(capsys.readouterr().out)["real"]] == [0, 2]


def test_an_interrupt_prints_the_results_so_far():
    def interrupt(number):
        if number:
            raise KeyboardInterrupt

    servers = Servers(1, at=interrupt)
    assert fuzz(servers, "--examples", "9") == exits.INTERRUPTED
    assert len(servers.searches[0].ran) == 2 and len(servers.shown) == 1


@pytest.mark.parametrize(("words", "last"), [((), False), (("--no-shrink",), True)])
def test_the_search_ends_with_its_time_and_shrinking_has_the_last_quarter(monkeypatch, words, last):
    """Every conversation takes 10 seconds of a minute. A search ends when all time is over."""
    clock = [100.0]
    monkeypatch.setattr(fuzz_command.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(campaign_jobs.time, "monotonic", lambda: clock[0])

    def pass_time(number):
        clock[0] += 10

    servers = Servers(0, at=pass_time)
    assert fuzz(servers, "--minutes", "1", *words) == exits.HOLDS
    assert servers.searches[0].ran == [(number, False) for number in range(6 if last else 5)]
