"""Steps of a release: `python .ci/release.py version X.Y.Z|build|rehearse`; CONTRIBUTING ("A release") has their order.

version X.Y.Z  write the version into the package and, with today's date, into the changelog
build          make dist/ from HEAD: the same bits from the same commit, with the same setuptools
rehearse       run the commands of CONTRIBUTING in a clone, with a temporary origin and package index on this machine

Standard library only; `build` needs the package build.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
from datetime import date
from email.parser import BytesParser
from email.policy import HTTP
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r'(?<=^__version__ = ")[^"]+', re.M)
STEPS = re.compile(r"^## A release\n.*?```sh\n(.*?)```", re.M | re.S)


def set_version(root: Path, new: str, day: str) -> None:
    """Write a version into the package, and into the changelog above the changes that are not released."""
    package, changes = root / "cachesim" / "__init__.py", root / "CHANGELOG.md"
    code, text = package.read_text("utf-8"), changes.read_text("utf-8")
    if not re.fullmatch(r"\d+\.\d+\.\d+", new) or f"\n## [{new}]" in text:
        sys.exit(f".ci/release.py: not a new version: '{new}' (X.Y.Z, without a section in CHANGELOG.md)")
    if not re.search(r"^## \[Unreleased\]\n\n###", text, re.M):
        sys.exit("CHANGELOG.md: [Unreleased] lists no change (nothing to release)")
    package.write_text(VERSION.sub(new, code, count=1), "utf-8")
    heading = "## [Unreleased]\n"
    changes.write_text(text.replace(heading, f"{heading}\n## [{new}] - {day}\n", 1), "utf-8")


def normalize(sdist: Path, epoch: int) -> None:
    """Rewrite an archive without what differs between two builds: times, owners, and the order of its files."""
    plain = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode, member.pax_headers = 0o755 if member.isdir() or member.mode & 0o100 else 0o644, {}
            new.addfile(member, old.extractfile(member) if member.isreg() else None)
    sdist.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch))


def build(root: Path) -> None:
    """Build HEAD of a checkout into dist/, and print the digests."""
    epoch = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=root, text=True).strip()
    shutil.rmtree(root / "dist", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        head = subprocess.check_output(["git", "archive", "HEAD"], cwd=root)
        with tarfile.open(fileobj=io.BytesIO(head)) as archive:
            archive.extractall(folder, filter="data")
        subprocess.run([sys.executable, "-m", "build", "--quiet", "--outdir", root / "dist", folder], check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": epoch})  # fmt: skip
    [sdist] = (root / "dist").glob("*.tar.gz")
    normalize(sdist, int(epoch))
    print(*digests(root), sep="\n")


def digests(root: Path) -> list[str]:
    """Return a line for each file in dist/, as sha256sum prints it."""
    files = sorted((root / "dist").iterdir())
    return [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]


class _Index(SimpleHTTPRequestHandler):
    """A package index that accepts any upload: POST stores a file, GET lists and returns it."""

    def do_POST(self) -> None:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        form = BytesParser(policy=HTTP).parsebytes(head + self.rfile.read(int(self.headers["Content-Length"])))
        fields = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        folder = Path(self.directory, "llm-cachesim")
        folder.mkdir(exist_ok=True)
        content = fields["content"]
        (folder / Path(content.get_filename()).name).write_bytes(content.get_payload(decode=True))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def index(folder: Path) -> Iterator[str]:
    """Yield the URL of a package index on this machine that stores its files in a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: _Index(*args, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def clone(source: Path, place: Path) -> Path:
    """Clone HEAD of a checkout through a bare repository, which is the origin of the clone."""
    for words in (["--bare", source, f"{place}.git"], [f"{place}.git", place]):
        subprocess.run(["git", "clone", "--quiet", *words], check=True)
    return place


def steps(root: Path) -> str:
    """Return the commands of a release in CONTRIBUTING."""
    [block] = STEPS.findall((root / "CONTRIBUTING.md").read_text("utf-8"))
    return block


def rehearse(root: Path) -> None:
    """Run the commands of a release in a clone of HEAD, then build the tag again and compare."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "index").mkdir()
        checkout = clone(root, folder / "checkout")
        with index(folder / "index") as url:
            environment = {
                **os.environ, "TWINE_REPOSITORY_URL": url, "TWINE_USERNAME": "rehearsal", "TWINE_PASSWORD": "rehearsal",
                "PIP_EXTRA_INDEX_URL": f"{os.environ.get('PIP_EXTRA_INDEX_URL', '')} {url}".strip(),
            }  # fmt: skip
            subprocess.run(["bash", "-exc", steps(checkout)], cwd=checkout, env=environment, check=True)
        again = folder / "again"
        subprocess.run(["git", "clone", "--quiet", f"{checkout}.git", again], check=True)
        subprocess.run(["make", "--no-print-directory", "dist"], cwd=again, check=True)
        if digests(again) != digests(checkout):
            sys.exit(".ci/release.py: two builds of one commit differ")
    print("rehearsed: two builds are equal; nothing was published")


def main(argv: list[str]) -> None:
    if argv[:1] == ["version"] and len(argv) == 2:
        set_version(ROOT, argv[1], date.today().isoformat())
    elif argv in (["build"], ["rehearse"]):
        globals()[argv[0]](ROOT)
    else:
        sys.exit("usage: python .ci/release.py version X.Y.Z|build|rehearse")


if __name__ == "__main__":
    main(sys.argv[1:])
