"""The plot of a server's memory: parts one after another, then all of them."""

import json
from itertools import accumulate

import pytest

from cachesim.cli.main import main
from cachesim.tools.memory.memory_plot import memory_plots


def test_each_part_begins_where_the_one_above_it_ends(capsys):
    assert main(["memory", "qwen3-next", "-c", "65536", "-np", "2", "--json"]) == 0
    (plot,) = memory_plots(json.loads(capsys.readouterr().out)["memory"])
    *parts, together = plot.rows
    ends = [*accumulate(sum(part.value for part in row.parts) for row in parts)]
    assert len(parts) > 2 and [row.start for row in parts] == pytest.approx([0, *ends[:-1]])
    assert sum(part.value for part in together.parts) == pytest.approx(ends[-1])
