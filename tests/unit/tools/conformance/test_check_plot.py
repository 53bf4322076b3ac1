"""The grid of a check has every property with its state, and the histories of every section."""

from cachesim.tools.conformance.check_plot import check_plot
from cachesim.tools.conformance.report import SECTIONS, Report, Result, SectionCount


def test_every_property_is_a_tile_with_its_state():
    results = (
        Result("append", "same", "s", "ok", checked=3, decisive=2),
        Result("branch", "same", "s", "failed", checked=4, decisive=4, fault="other tokens"),
        Result("burst", "parallel", "s", "undecided", why="the time was over"),
        Result("image", "isolation", "s", "unsupported", why="no images"),
    )
    counts = {"same": SectionCount(9, 2, ("branch",), 6), "drawn": SectionCount(5, 0, (), 5)}
    plot = check_plot(Report(results, counts, skipped={"known": "not selected"}), "WRONG: 1 fault", "server")
    tiles = {(row.name, tile.name): (tile.kind, tile.says) for row in plot.rows for tile in row.tiles}
    assert [row.name.split()[1] for row in plot.rows] == [*SECTIONS]
    assert tiles["2 same", "append"] == ("good", "ok, 3 checks, 2 of them could fail: s")
    assert tiles["2 same", "branch"][0] == tiles["2 same", "9 histories"][0] == "bad"
    assert tiles["4 drawn", "5 histories"] == ("good", "5 histories")
    assert tiles["9 parallel", "burst"][0] == "open" and tiles["6 isolation", "image"][0] == "none"
    assert tiles["3 known", "no histories"] == ("none", "not selected")
