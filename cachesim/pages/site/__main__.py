"""``python -m cachesim.pages.site``: build the site, and read it again for broken links."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import ArgumentParser
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from cachesim.base import exits
from cachesim.base.console import complain, say
from cachesim.base.ending import ended_by_signals
from cachesim.base.errors import BadInput
from cachesim.base.extras import install_command
from cachesim.base.pool import cores

INVENTORY = "objects.inv"       # file that Sphinx writes into each site
UNFINISHED = 2                  # exit code of Sphinx for a build that ended early


def main(argv: list[str]) -> int:
    """Build the site and return an exit code: 1 for a broken link, or if Sphinx warns of a page."""
    parser = ArgumentParser(prog="python -m cachesim.pages.site", description="Build the site of cachesim.")
    parser.add_argument("--out", type=Path, default=Path("build/site"), help="folder to write, replaced (build/site)")
    parser.add_argument("-j", type=int, default=cores(), help="processes (default: one for each CPU)")
    args = parser.parse_args(argv)
    try:
        with ended_by_signals():
            return _build(args.out, args.j)
    except KeyboardInterrupt as interrupt:
        complain("interrupted")
        return exits.interrupted(interrupt)
    except BadInput as bad:
        complain(str(bad))
        return bad.code
    except OSError as error:
        complain(f"{args.out}: cannot be written: {(error.strerror or str(error)).lower()}")
        return exits.BAD_INPUT


def _build(out: Path, jobs: int) -> int:
    """Build the site beside ``out``, then replace the folder. Return an exit code. Raise BadInput."""
    _check_replaceable(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    if find_spec("sphinx") is None or find_spec("furo") is None or find_spec("myst_parser") is None:
        raise BadInput("the site needs Sphinx, MyST and Furo", hint=install_command("site"))
    from sphinx.cmd.build import build_main

    from cachesim.pages.site.built_site import broken_links, size_of
    from cachesim.pages.site.site_sources import write_sources

    with TemporaryDirectory(prefix=".site-", dir=out.parent) as temporary:
        sources = Path(temporary) / "sources"
        sources.mkdir()
        site = Path(temporary) / "site"
        number = write_sources(sources, jobs)
        options = ["-q", "-W", "--keep-going", "-j", str(jobs), "-d", f"{temporary}/doctrees"]
        failed = build_main([*options, str(sources), str(site)])
        if failed == UNFINISHED:
            raise BadInput("the build ended early; the former site stays", file=str(out))
        shutil.rmtree(site / "_sources", ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        os.replace(site, out)
    broken = [*broken_links(out)]
    for line in broken:
        complain(f"broken link in {line}")
    say(f"{out / 'index.html'}: {number} pages, {size_of(out) / 2**20:.0f} MiB, {len(broken)} broken links\n")
    return exits.HOLDS if not failed and not broken else exits.BROKEN


def _check_replaceable(out: Path) -> None:
    """Raise BadInput for a folder with files that are not those of a site."""
    if not os.path.lexists(out) or (os.path.isdir(out) and not os.listdir(out)):
        return
    if not os.path.isfile(out / INVENTORY):
        raise BadInput("not a site, so it is not replaced", file=str(out), hint="name a new folder, or an older site")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
