"""``python -m cachesim.pages.site``: build the site, and read it again for broken links."""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from cachesim.base import exits
from cachesim.base.console import complain, say
from cachesim.base.extras import install_command
from cachesim.base.pool import cores


def main(argv: list[str]) -> int:
    """Build the site and return an exit code: 1 for a broken link, or if Sphinx warns of a page."""
    parser = ArgumentParser(prog="python -m cachesim.pages.site", description="Build the site of cachesim.")
    parser.add_argument("--out", type=Path, default=Path("build/site"), help="folder to write, replaced (build/site)")
    parser.add_argument("-j", type=int, default=cores(), help="processes (default: one for each CPU)")
    args = parser.parse_args(argv)
    if find_spec("sphinx") is None or find_spec("furo") is None or find_spec("myst_parser") is None:
        complain(f"the site needs Sphinx, MyST and Furo: {install_command('site')}")
        return exits.BAD_INPUT
    from sphinx.cmd.build import build_main

    from cachesim.pages.site.built_site import broken_links, size_of
    from cachesim.pages.site.site_sources import write_sources

    shutil.rmtree(args.out, ignore_errors=True)
    with TemporaryDirectory(prefix="cachesim-site-") as temporary:
        sources = Path(temporary) / "sources"
        sources.mkdir()
        number = write_sources(sources, args.j)
        options = ["-q", "-W", "--keep-going", "-j", str(args.j), "-d", f"{temporary}/doctrees"]
        failed = build_main([*options, str(sources), str(args.out)])
    shutil.rmtree(args.out / "_sources", ignore_errors=True)
    broken = [*broken_links(args.out)]
    for line in broken:
        complain(f"broken link in {line}")
    say(f"{args.out / 'index.html'}: {number} pages, {size_of(args.out) / 2**20:.0f} MiB, {len(broken)} broken links\n")
    return exits.HOLDS if not failed and not broken else exits.BROKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
