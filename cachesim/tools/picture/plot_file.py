"""Option ``--plot FILE``: the numbers that a command compares as a plot, in an SVG or HTML file, or as text."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Sequence

from cachesim.base.errors import BadInput, quoted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cachesim.tools.picture.plot import Plot

SUFFIXES = (".svg", ".html")
STDOUT = "-"


def add_plot(parser: ArgumentParser, shows: str) -> None:
    """Add ``--plot``. ``shows``: what the plot compares."""
    parser.add_argument("--plot", metavar="FILE", default="",
                        help=f"SVG or HTML file to write, by its suffix, or - for text: {shows}")  # fmt: skip


def plot_file(args: Namespace) -> str:
    """Return the file of ``--plot``, "" = not given. Raise BadInput for another suffix, and for text beside JSON."""
    file: str = args.plot
    if file == STDOUT:
        if args.json:
            raise BadInput("--plot - prints text, which cannot be combined with --json", hint="--plot FILE.svg")
        return file
    if file and Path(file).suffix.lower() not in SUFFIXES:
        raise BadInput(f"--plot: expected a file that ends in {' or '.join(SUFFIXES)}, or -, found {quoted(file)}")
    return file


def write_plots(file: str, plots: Sequence[Plot], report: RenderableType) -> None:
    """Write plots to the file of ``--plot``, or print them; "" = nothing. ``report``: what the command prints,
    for a page; without plots only a line is printed. Raise BadInput if the file cannot be written."""
    from cachesim.base.console import complain, show
    from cachesim.base.files import write_whole
    from cachesim.tools.picture.plot import draw_plots

    if not file:
        return
    if not plots:
        complain("nothing to plot" if file == STDOUT else f"nothing to plot: {file} was not written")
        return
    if file == STDOUT:
        from cachesim.tools.picture.plot_text import plot_text

        show("", *plot_text(plots))
        return
    is_page = Path(file).suffix.lower() == ".html"
    drawn = plot_page(plots, report) if is_page else draw_plots(plots)
    write_whole(Path(file), drawn.encode())
    complain(f"wrote {file}")


def plot_page(plots: Sequence[Plot], report: RenderableType) -> str:
    """Return a page with the plots in two widths and the report."""
    from string import Template

    from cachesim.base.escaping import markup
    from cachesim.tools.picture.page_assets import asset
    from cachesim.tools.picture.plot import NARROW, WIDE, draw_plots
    from cachesim.tools.picture.report_html import report_html

    files = ("palette.css", "drawing.css", "plot.css", "page.css", "plot_page.css")
    return Template(asset(__file__, "plot.html")).substitute(
        title=markup(plots[0].title),
        style="\n".join(asset(__file__, name) for name in files),
        signs=asset(__file__, "patterns.svg"),
        wide=draw_plots(plots, WIDE, alone=False, kind="wide"),
        narrow=draw_plots(plots, NARROW, alone=False, kind="narrow"),
        report=report_html(report, "report"),
    )
