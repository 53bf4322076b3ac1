"""Builds of llama.cpp's master that have a rule set, and the points at which changes reached it.

A build number is the number of commits on master. Source: `git rev-list --count` and the dates of the merged commits of
ggml-org/llama.cpp. A change that is not listed here has no known build. The rules are in ``profiles``.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from cachesim.engines.shared.timeline import Commit, DatedChange, Timeline

LANDED: Mapping[str, Commit] = {
    "#4798": Commit(1778, "2024-01-07"), "#5420": Commit(2110, "2024-02-09"), "#5622": Commit(2230, "2024-02-21"),
    "#5882": Commit(2357, "2024-03-07"), "#5328": Commit(2366, "2024-03-08"), "#5021": Commit(2771, "2024-04-30"),
    "#7257": Commit(2871, "2024-05-13"), "#7728": Commit(3109, "2024-06-08"), "#8227": Commit(3274, "2024-07-01"),
    "#8699": Commit(3483, "2024-07-28"), "#9249": Commit(3658, "2024-09-02"), "#9866": Commit(3914, "2024-10-13"),
    "#10455": Commit(4164, "2024-11-25"), "#10641": Commit(4266, "2024-12-04"), "#10994": Commit(4406, "2025-01-02"),
    "#12161": Commit(4825, "2025-03-05"), "#12898": Commit(5331, "2025-05-09"), "#13533": Commit(5379, "2025-05-14"),
    "#13577": Commit(5409, "2025-05-16"), "#13194": Commit(5429, "2025-05-20"), "#13808": Commit(5504, "2025-05-27"),
    "#14079": Commit(5610, "2025-06-09"), "#14163": Commit(5653, "2025-06-13"), "#14177": Commit(5666, "2025-06-15"),
    "#14339": Commit(5742, "2025-06-23"), "#14512": Commit(5825, "2025-07-04"), "#14575": Commit(5846, "2025-07-08"),
    "#14534": Commit(5851, "2025-07-09"), "#14363": Commit(5913, "2025-07-16"), "#14742": Commit(5923, "2025-07-17"),
    "#15293": Commit(6160, "2025-08-14"), "#15416": Commit(6206, "2025-08-19"), "#15798": Commit(6384, "2025-09-04"),
    "#15811": Commit(6389, "2025-09-05"), "#15327": Commit(6396, "2025-09-05"), "#15913": Commit(6455, "2025-09-12"),
    "#16382": Commit(6685, "2025-10-03"), "#16442": Commit(6704, "2025-10-07"), "#16440": Commit(6711, "2025-10-08"),
    "#16391": Commit(6723, "2025-10-09"), "#16560": Commit(6756, "2025-10-14"), "#16812": Commit(6868, "2025-10-28"),
    "#16825": Commit(6878, "2025-10-29"), "#16818": Commit(6890, "2025-10-30"), "#16736": Commit(6925, "2025-11-02"),
    "#17000": Commit(6947, "2025-11-04"), "#17046": Commit(6975, "2025-11-07"), "#17078": Commit(6999, "2025-11-09"),
    "#17009": Commit(7011, "2025-11-10"),
    "#17263": Commit(7059, "2025-11-14"), "#17267": Commit(7078, "2025-11-16"), "#17505": Commit(7256, "2025-12-03"),
    "#17775": Commit(7308, "2025-12-06"), "#17808": Commit(7323, "2025-12-08"), "#16653": Commit(7407, "2025-12-15"),
    "#17982": Commit(7413, "2025-12-15"), "#17997": Commit(7433, "2025-12-16"), "#18263": Commit(7508, "2025-12-22"),
    "#18391": Commit(7543, "2025-12-26"),
    "#18663": Commit(7690, "2026-01-10"), "#18801": Commit(7725, "2026-01-13"), "#18547": Commit(7746, "2026-01-15"),
    "#18789": Commit(7747, "2026-01-15"),
    "#18601": Commit(7789, "2026-01-21"), "#18471": Commit(7864, "2026-01-28"), "#19207": Commit(7890, "2026-01-30"),
    "#19270": Commit(7959, "2026-02-06"), "#19408": Commit(7970, "2026-02-08"), "#19849": Commit(8152, "2026-02-25"),
    "#19928": Commit(8165, "2026-02-26"), "#19924": Commit(8166, "2026-02-26"), "#20132": Commit(8215, "2026-03-06"),
    "#20087": Commit(8218, "2026-03-06"), "#20279": Commit(8257, "2026-03-09"), "#20287": Commit(8260, "2026-03-09"),
    "#20288": Commit(8271, "2026-03-10"),
    "#20671": Commit(8393, "2026-03-17"), "#20726": Commit(8450, "2026-03-20"), "#21224": Commit(8613, "2026-04-01"),
    "#20993": Commit(8658, "2026-04-03"), "#21510": Commit(8693, "2026-04-07"), "#19493": Commit(8842, "2026-04-19"),
    "#22114": Commit(8854, "2026-04-20"), "#22267": Commit(8908, "2026-04-23"), "#22288": Commit(8916, "2026-04-24"),
    "#22679": Commit(9028, "2026-05-05"), "#22805": Commit(9064, "2026-05-07"), "#22838": Commit(9109, "2026-05-11"),
    "#22673": Commit(9180, "2026-05-16"), "#23280": Commit(9231, "2026-05-19"), "#23269": Commit(9235, "2026-05-19"),
    "#22929": Commit(9310, "2026-05-25"), "#23646": Commit(9318, "2026-05-25"),
    "#23981": Commit(9473, "2026-06-02"), "#24110": Commit(9509, "2026-06-04"),
    "#24190": Commit(9574, "2026-06-09"), "#24411": Commit(9593, "2026-06-11"), "#24150": Commit(9707, "2026-06-18"),
    "#24755": Commit(9718, "2026-06-19"), "#24786": Commit(9722, "2026-06-19"), "#24340": Commit(9745, "2026-06-21"),
    "#24843": Commit(9752, "2026-06-21"), "#24176": Commit(9765, "2026-06-23"), "#25078": Commit(9829, "2026-06-28"),
    "#25070": Commit(9908, "2026-07-07"), "#25278": Commit(9922, "2026-07-08"), "#25420": Commit(9936, "2026-07-09"),
    "#25472": Commit(9978, "2026-07-12"), "#25649": Commit(10011, "2026-07-14"), "#26218": Commit(10160, "2026-07-28"),
    "#26271": Commit(10178, "2026-07-29"), "#26320": Commit(10210, "2026-07-31"), "#26640": Commit(10388, "2026-08-12"),
    "#26920": Commit(10406, "2026-08-13"),
    "b10229": Commit(10229, "2026-08-02"), "b10566": Commit(10566, "2026-08-21"),
}  # fmt: skip
"""Change -> build and date. A build as a change: the first wheel on which it was seen."""

OWN: Mapping[str, Commit] = {
    "llama_cpp@b1573": Commit(1573, "2023-11-27"),
    "llama_cpp@b2781": Commit(2781, "2024-05-02"),
    "llama_cpp@b3642": Commit(3642, "2024-08-28"),
    "llama_cpp@b4094": Commit(4094, "2024-11-15"),
    "llama_cpp@b4265": Commit(4265, "2024-12-04"),
    "llama_cpp@b4579": Commit(4579, "2025-01-28"),
    "llama_cpp@b5308": Commit(5308, "2025-05-08"),
    "llama_cpp@b5340": Commit(5340, "2025-05-10"),
    "llama_cpp@b5554": Commit(5554, "2025-05-31"),
    "llama_cpp@b5630": Commit(5630, "2025-06-10"),
    "llama_cpp@b5735": Commit(5735, "2025-06-22"),
    "llama_cpp@b5833": Commit(5833, "2025-07-05"),
    "llama_cpp@b5913": Commit(5913, "2025-07-16"),
    "llama_cpp@b6110": Commit(6110, "2025-08-07"),
    "llama_cpp@b6160": Commit(6160, "2025-08-14"),
    "llama_cpp@b6388": Commit(6388, "2025-09-05"),
    "llama_cpp@b6685": Commit(6685, "2025-10-03"),
    "llama_cpp@b6740": Commit(6740, "2025-10-12"),
    "llama_cpp@b6914": Commit(6914, "2025-11-01"),
    "llama_cpp@b6998": Commit(6998, "2025-11-09"),
    "llama_cpp@b7400": Commit(7400, "2025-12-14"),
    "llama_cpp@b7789": Commit(7789, "2026-01-21"),
    "llama_cpp@b8152": Commit(8152, "2026-02-25"),
    "llama_cpp@b8260": Commit(8260, "2026-03-09"),
    "llama_cpp@b8271": Commit(8271, "2026-03-10"),
    "llama_cpp@b8392": Commit(8392, "2026-03-17"),
    "llama_cpp@b8450": Commit(8450, "2026-03-20"),
    "llama_cpp@b8916": Commit(8916, "2026-04-24"),
    "llama_cpp@b9063": Commit(9063, "2026-05-07"),
    "llama_cpp@b9230": Commit(9230, "2026-05-19"),
    "llama_cpp@b9231": Commit(9231, "2026-05-19"),
    "llama_cpp@b9473": Commit(9473, "2026-06-02"),
    "llama_cpp@b9518": Commit(9518, "2026-06-04"),
    "llama_cpp@b9765": Commit(9765, "2026-06-23"),
    "llama_cpp@b10587": Commit(10587, "2026-08-22"),
    "llama_cpp@b10809": Commit(10809, "2026-09-06"),
    "llama_cpp@b11063": Commit(11063, "2026-09-21"),
    "llama_cpp@b11312": Commit(11312, "2026-10-01"),
    "llama_cpp@b11549": Commit(11549, "2026-10-10"),
}
"""Rule set of a build of master -> its build and date, oldest first."""

HASHES: Mapping[str, str] = {
    "b38a16dfc": "llama_cpp@b1573",
    "6ecf3189e": "llama_cpp@b2781",
    "1d1ccce67": "llama_cpp@b3642",
    "74d73dc85": "llama_cpp@b4094",
    "1da7b7656": "llama_cpp@b4265",
    "794fe23f2": "llama_cpp@b4579",
    "8733e0cf6": "llama_cpp@b5308",
    "15e6125a3": "llama_cpp@b5340",
    "3600cc288": "llama_cpp@b5554",
    "4c763c8d1": "llama_cpp@b5630",
    "5d5c066de": "llama_cpp@b5735",
    "a0374a67e": "llama_cpp@b5833",
    "225e7a143": "llama_cpp@b5913",
    "9a9638954": "llama_cpp@b6110",
    "d32e03f44": "llama_cpp@b6160",
    "4227c9be4": "llama_cpp@b6160",
    "5d6688de0": "llama_cpp@b6388",
    "f6dcda390": "llama_cpp@b6685",
    "4b2dae383": "llama_cpp@b6740",
    "d8b860a21": "llama_cpp@b6914",
    "cb1adf885": "llama_cpp@b6998",
    "0759b09c9": "llama_cpp@b7400",
    "ad8d85bd9": "llama_cpp@b7789",
    "d7d826b3c": "llama_cpp@b8152",
    "96cfc4992": "llama_cpp@b8260",
    "a7b3dee7a": "llama_cpp@b8271",
    "627670601": "llama_cpp@b8392",
    "ab9d4c367": "llama_cpp@b8450",
    "ffdd983fb": "llama_cpp@b8916",
    "e43431b38": "llama_cpp@b9063",
    "ccee42642": "llama_cpp@b9231",
    "236531595": "llama_cpp@b9473",
    "7c158fbb4": "llama_cpp@b9518",
    "73618f27a": "llama_cpp@b9765",
    "3f545beccee69d9975f466ec7e45fd9aacd8ba90": "llama_cpp@b10587",
    "0c1e57098": "llama_cpp@b11312",
}
"""Commit of master -> the rule set that was recorded or read there."""

BESIDE: Mapping[str, str] = {
    "llama_cpp@24035-v1": "llama_cpp@b9473",
    "llama_cpp@pr24143-on-b9518": "llama_cpp@b9518",
    "llama_cpp@24035-v3": "llama_cpp@b10587",
    "llama_cpp@pr24143-on-b10587": "llama_cpp@b10587",
    "llama_cpp@b11549-repaired": "llama_cpp@b11549",
    "llama_cpp@b11549-proposed": "llama_cpp@b11549",
    "llama_cpp@b11549-lora-tried": "llama_cpp@b11549",
    "llama_cpp@pr29117-on-b9230": "llama_cpp@b9230",
    "llama_cpp@22673-draft": "llama_cpp@b9063",
}
"""Rule set of a proposed change -> the rule set of the build that it was proposed for."""

LINE = tuple(OWN)
"""Rule sets of master, oldest first."""

NEWEST = LINE[-1]
"""The newest build: ``llama_cpp@latest`` on a command line."""

COMMITS = {
    **HASHES,
    **{f"b{build.number}": name for name, build in OWN.items() if name not in HASHES.values()},
    "3f545be+pr24143": "llama_cpp@pr24143-on-b10587",
    "8cc2d8126~1": "llama_cpp@b8392",
}
"""Commit or build in a recording -> its rule set."""


def _load_between() -> Sequence[DatedChange]:
    from cachesim.engines.llama_cpp.profiles.between import BETWEEN

    return BETWEEN


TIMELINE = Timeline(
    own=OWN,
    landed=LANDED,
    releases={commit: OWN[name] for commit, name in HASHES.items()},
    builds=True,
    load_between=_load_between,
)
