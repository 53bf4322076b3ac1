"""Wheels of the package xllamacpp, each of which contains the server of one build of llama.cpp.

From April 2026 on the version of a wheel ends with the number of its build. Older wheels log it when they start. The
first wheel whose server answers HTTP is 0.2.7. ``wheels.sha256`` has the hashes of their files, as the package index
listed them on 2026-11-29.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.tools.live.llama_server.wheel_program import WHEEL, build_of

HASHES = Path(__file__).with_name("wheels.sha256")
MIB = 100                   # installed size of a wheel, roughly [MiB]


class Wheel(NamedTuple):
    """A wheel. ``build``: name of its llama.cpp, such as b11549; ``version``: of the package."""

    build: str
    version: str

    @property
    def number(self) -> int:
        """Number of the build."""
        return int(self.build.removeprefix("b"))

    @property
    def requirement(self) -> str:
        """The wheel as pip names it."""
        return f"{WHEEL}=={self.version}"

    @property
    def hashes(self) -> list[str]:
        """SHA-256 of the files of this version, for Linux and macOS; [] for a version that is newer than the list."""
        return [line.partition(" ")[0] for line in _listed() if f" {WHEEL}-{self.version}-" in line]

    @property
    def announced(self) -> str:
        """The wheel for a note before its installation."""
        return self.requirement if self.hashes else f"{self.requirement} as the index has it, without a listed hash"


@cache
def _listed() -> list[str]:
    """Return the lines of the list, as ``sha256sum`` prints them."""
    return HASHES.read_text("utf-8").splitlines()


WHEELS = (
    Wheel("b11549", "2026.10.11549"),
    Wheel("b11063", "2026.9.11063"),
    Wheel("b10809", "2026.9.10809"),
    Wheel("b10566", "2026.8.10566"),
    Wheel("b10229", "2026.8.10229"),
    Wheel("b10068", "2026.7.10068"),
    Wheel("b9873", "2026.7.9873"),
    Wheel("b9713", "2026.6.9713"),
    Wheel("b9538", "2026.6.9538"),
    Wheel("b9294", "2026.5.9294"),
    Wheel("b9093", "2026.5.9093"),
    Wheel("b8929", "2026.4.8929"),
    Wheel("b8672", "2026.4.8672.1"),
    Wheel("b8352", "0.2.14"),
    Wheel("b8156", "0.2.12"),
    Wheel("b7964", "0.2.11"),
    Wheel("b7827", "0.2.10"),
    Wheel("b7710", "0.2.9"),
    Wheel("b7551", "0.2.8"),
    Wheel("b7376", "0.2.7"),
)
"""Wheels that were started and answered, the newest first."""


def find_wheel(text: str) -> Wheel:
    """Return the wheel of a build, or of a version of the package, which may be newer than the table. Raise
    BadInput."""
    for wheel in WHEELS:
        if text in (wheel.build, wheel.build.removeprefix("b"), wheel.version):
            return wheel
    if re.fullmatch(r"\d{4}\.\d+\.\d+(\.\d+)?", text):
        return Wheel(f"b{build_of(text)}", text)
    builds = [wheel.build for wheel in WHEELS]
    hint = nearest(text, builds) or "cachesim real list; or a version of the package, such as 2026.10.11549"
    raise BadInput(f"no wheel with the build {quoted(text)}", hint=hint)
