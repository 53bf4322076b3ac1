"""Projectors of images: the flag of a server, and the check of a prompt with images."""

from __future__ import annotations

from typing import Any, Mapping, Protocol

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.base.media_items import count_images, is_item
from cachesim.engines.base import Request

NONCAUSAL = "gemma3"
"""Projectors whose images are evaluated without causal mask."""
PROJECTORS = ("", "causal", NONCAUSAL)
"""Kinds of projectors, "" = none."""


PROJECTOR_FILE = "MODELS/tiny-mmproj-KIND.gguf"
"""File of a projector on a command line."""


def read_projector(text: str) -> str:
    """Return the kind of the projector in a file."""
    return "gemma3" if "gemma" in text.rpartition("/")[2].lower() else "causal"


def write_projector(options: Mapping[str, Any]) -> list[str]:
    """Return the flag with a file name of the projector."""
    kind = options.get("mmproj", "")
    return ["--mmproj", PROJECTOR_FILE.replace("KIND", kind.replace("causal", "qwen2vl"))] if kind else []


def image_sizes(server: Mapping[str, Any]) -> tuple[str, ...]:
    """Return sizes of images for the kind of projector: one has images of equal size."""
    return {"": (), "gemma3": ("3x3",)}.get(server.get("mmproj", ""), ("2x2", "4x2", "1x6", "4x4"))


class ImageRules(Protocol):
    """What the check reads of a rule set. ``most_images``: images in a prompt, 0 = their rules are not known."""

    @property
    def name(self) -> str:
        """Name of the rule set."""

    @property
    def build(self) -> str:
        """Build of the server."""

    @property
    def most_images(self) -> int:
        """Images in a prompt, at most."""


def check_images(rules: ImageRules, projector: str, request: Request, since: str) -> None:
    """Raise BadInput for images that a server of these rules cannot have in a prompt. ``since``: first version whose
    rules for images are known."""
    found = count_images(request.prompt) if is_item(max(request.prompt, default=0)) else 0
    if not found:
        return
    if rules.most_images and not projector:
        raise BadInput("the prompt has an image", hint="server option mmproj names the kind of a projector")
    if found > rules.most_images:
        text = f"images are not known of {rules.name} ({rules.build})"
        if rules.most_images:
            text = f"the prompt has {found} images, at most {rules.most_images} are simulated"
        raise NotInBuild(text, hint="" if rules.most_images else f"from {since} on")
