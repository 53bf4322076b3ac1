"""How a drawing looks: colours, hatchings and letters of where tokens come from.

Every origin has a colour, a hatching and a letter, so that none of them is the only signal. Colours are Okabe and
Ito's, which people with any colour vision tell apart.
"""

from __future__ import annotations

LETTERS = {"kept": "K", "reused": "U", "restored": "R", "loaded": "L", "evaluated": "E", "again": "!", "generated": "g",
           "moved": "M"}  # fmt: skip
WORDS = {
    "kept": "kept in the slot", "reused": "reused, from the slot or elsewhere",
    "restored": "restored from a checkpoint", "loaded": "loaded from the prompt cache",
    "evaluated": "evaluated, new", "moved": "kept, at other positions",
    "again": "evaluated again", "generated": "generated",
}  # fmt: skip
HATCHED = ("moved", "restored", "loaded", "again")

STYLE = """
.cs{font:12px ui-monospace,Menlo,Consolas,monospace;--ink:#1b1b1b;--dim:#5a5a5a;--line:#9a9a9a;--paper:#ffffff;
--lane:#eef1f4;--kept:#0072b2;--reused:#0072b2;--moved:#cc79a7;--restored:#56b4e9;--loaded:#009e73;--evaluated:#d9d9d9;
--again:#e69f00;--generated:#f2f2f2;--bad:#b3001b}
@media (prefers-color-scheme:dark){.cs{--ink:#f0f0f0;--dim:#b4b4b4;--line:#6a6a6a;--paper:#16181c;--lane:#23272d;
--kept:#3aa0e0;--reused:#3aa0e0;--moved:#e09ac0;
--restored:#8fd0f5;--loaded:#35c79a;--evaluated:#4a4d52;--again:#f0b030;--generated:#2b2e33;--bad:#ff7b7b}}
@media print{.cs{--ink:#1b1b1b;--dim:#5a5a5a;--line:#9a9a9a;--paper:#ffffff;
--lane:#eef1f4;--kept:#0072b2;--reused:#0072b2;--moved:#cc79a7;--restored:#56b4e9;--loaded:#009e73;--evaluated:#d9d9d9;
--again:#e69f00;--generated:#f2f2f2;--bad:#b3001b;print-color-adjust:exact;-webkit-print-color-adjust:exact}}
.cs text{fill:var(--ink)}.cs .dim,.cs .dim text{fill:var(--dim)}.cs .bad{fill:var(--bad);font-weight:bold}
.cs .halo{paint-order:stroke;stroke:var(--paper);stroke-width:5px}
.cs .big{font-size:15px;font-weight:bold}
.cs .letter{font-weight:bold;text-anchor:middle;paint-order:stroke;stroke:var(--paper);stroke-width:5px;
stroke-linejoin:round;stroke-opacity:.8;pointer-events:none}
.cs .mid{text-anchor:middle}.cs .start{text-anchor:start}.cs .paper{fill:var(--paper)}
.cs .frame{fill:none;pointer-events:all}
.cs .thin{stroke:var(--line);fill:none}.cs .lane{fill:var(--lane)}.cs .thread{stroke:var(--dim);fill:none}
.cs .block{fill:var(--dim)}.cs .block.red{fill:var(--bad)}
.cs .num{fill:var(--paper);font-size:10px;font-weight:bold;text-anchor:middle}
.cs .life{stroke:var(--loaded);fill:none;stroke-width:3}
.cs .wrong{stroke:var(--bad);fill:none;stroke-width:1.5}.cs .first{stroke:var(--ink);fill:none;stroke-dasharray:7 3}
.cs .full{fill:var(--loaded);stroke:var(--line)}.cs .gone{stroke:var(--bad);fill:none;stroke-dasharray:2 2}
.cs .gone.box{fill:var(--paper)}
.cs .arrow{stroke:var(--again);fill:none;stroke-width:1.5;stroke-dasharray:4 3}
.cs .mark{fill:var(--ink)}.cs .rows{stroke:var(--kept);stroke-width:3;fill:none}
.cs .win{stroke:var(--restored);stroke-width:3;fill:none}.cs .end{text-anchor:end}.cs .dot{fill:var(--bad)}
""" + "".join(
    f".cs .o-{one}{{fill:{f'url(#p-{one})' if one in HATCHED else f'var(--{one})'};stroke:var(--paper)}}"
    for one in WORDS
) + "\n"


def patterns() -> str:
    """Colours with hatchings, and one that lies over colours."""
    lines = {
        "restored": '<circle cx="4" cy="4" r="1.2" fill="#fff"/>',
        "loaded": '<path d="M0 8L8 0" stroke="#fff" stroke-width="1.2"/>',
        "moved": '<path d="M0 4H8" stroke="#fff" stroke-width="1.2"/>',
        "wrong": '<path d="M0 0L8 8M8 0L0 8" stroke="var(--bad)" stroke-width="1.6"/>',
        "again": '<path d="M0 0L8 8M8 0L0 8" stroke="#fff" stroke-width="1"/>',
    }

    def under(name: str) -> str:
        return f'<rect width="8" height="8" fill="var(--{name})"/>' if name in HATCHED else ""

    return "<defs>" + "".join(
        f'<pattern id="p-{name}" width="8" height="8" patternUnits="userSpaceOnUse">{under(name)}{body}</pattern>'
        for name, body in lines.items()
    ) + "</defs>"
