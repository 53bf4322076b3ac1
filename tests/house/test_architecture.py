"""The picture of the levels in ARCHITECTURE.md is that of the code."""

from __future__ import annotations

import re

from tests.house import checks

TEXT = (checks.PACKAGE / "ARCHITECTURE.md").read_text("utf-8")


def test_the_picture_shows_every_room_on_its_level():
    picture = TEXT.partition("<!-- levels -->")[2].partition("<!-- /levels -->")[0]
    rows = re.findall(r"^ (\d)  .{18}  (.+)$", picture, re.M)
    drawn = {room: int(level) for level, rooms in rows for room in rooms.split(", ")}
    assert drawn == {room: max(0, level) for room, level in checks.LEVEL.items() if room != "__init__"}


def test_files_that_are_named_exist():
    for name in re.findall(r"`((?:engines|judge|oracle|scenarios|replay|model|rules|lru)/[a-z_/]+\.(?:py|md))`", TEXT):
        places = [checks.PACKAGE / name, *checks.PACKAGE.glob(f"engines/*/{name}")]
        assert any(place.exists() for place in places), name
