"""Sentences for rules about images in prompts."""

from __future__ import annotations

from cachesim.engines.shared.sentences import NoEffect, Say

MEDIA: dict[str, Say] = {
    "IK-MEDIA-POS": lambda v, b: NoEffect(f"{b['n']} tokens with images have {v} positions"),
    "IK-MEDIA-RESUME": lambda v, b: NoEffect(f"n_past = {v} at position {b['pos']}"),
    "IK-MEDIA-CUT": lambda v, b: (
        f"the process ends: the list is cut at an image (token {b['n']})" if v else
        NoEffect("the list is not cut at an image")),
    "IK-MEDIA-ITER": lambda v, b: NoEffect(f"the batch ends before an image, at {v[0]}"),
    "IK-MEDIA-PLACE": lambda v, b: NoEffect(f"the image begins at position {v}") if v == b["held"] else (
        f"the image begins at position {v}, the slot ends at {b['held']}"),
    "IK-MEDIA-CKPT": lambda v, b: NoEffect("a checkpoint is created") if v else (
        "no checkpoint: an image was evaluated last" if b["wanted"] else NoEffect("no checkpoint is due")),
    "IK-MEDIA-END": lambda v, b: (
        "the process ends: the prompt ends with an image, and the batch is empty" if v else
        "the prompt ends with an image: the answer is sampled after another slot's token"),
    "IK-MEDIA-NULL": lambda v, b: (
        "the process ends: token -1 in the prompt" if v and b["token"] < 0 else
        "the process ends: a context shift discarded the start of this image" if v else
        NoEffect("an image begins here")),
    "IK-MEDIA-NONCAUSAL": lambda v, b: (
        f"the process ends: an image of {b['n_tokens']} tokens, n_ubatch = {b['n_ubatch']}" if v else
        NoEffect("the image is evaluated")),
    "IK-MEDIA-KV": lambda v, b: f"{v}: the slot tries it again in the next iteration",
    "IK-MEDIA-SHIFT": lambda v, b: f"context shift around images: n_keep = {v.n_keep}, n_discard = {v.n_discard}",
    "IK-MEDIA-PROMPT-SHIFT": lambda v, b: f"prompt shift around images: n_keep = {v.n_keep}, block = {v.block}",
    "IK-MEDIA-OFF": lambda v, b: NoEffect(f"drafts: {v}") if v == b["kind"] else "no drafts: a projector is loaded",
}
