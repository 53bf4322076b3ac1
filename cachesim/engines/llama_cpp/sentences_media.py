"""Sentences for rules about images in prompts."""

from __future__ import annotations

from cachesim.engines.shared.sentences import NoEffect, Say

MEDIA: dict[str, Say] = {
    "LC-MEDIA-POS": lambda v, b: NoEffect(f"token {b['index']} has position {v}"),
    "LC-MEDIA-RESUME": lambda v, b: NoEffect(f"n_past = {v.n_past} at position {b['pos_next']}"),
    "LC-MEDIA-LCP": lambda v, b: NoEffect(f"the common prefix ends before an image: {v} tokens"),
    "LC-MEDIA-NULL": lambda v, b: (
        f"the process ends: {v}, the prompt has the token -1 where the slot has an image (token {b['lcp']})" if v else
        NoEffect("no token -1 meets an image")),
    "LC-MEDIA-CUT": lambda v, b: (
        f"the request fails: the slot cannot be cut inside an image (n_past = {b['n_past']})" if v else
        NoEffect("the slot is not cut inside an image")),
    "LC-MEDIA-ITER": lambda v, b: NoEffect(f"the batch ends before an image, at {v}"),
    "LC-MEDIA-CKPT": lambda v, b: NoEffect("a checkpoint is created") if v else (
        "no checkpoint: an image was evaluated before this batch" if b["due"] else NoEffect("no checkpoint is due")),
    "LC-MEDIA-NONCAUSAL": lambda v, b: (
        f"the process ends: an image of {b['n_tokens']} tokens, n_ubatch = {b['n_ubatch']}" if v else
        NoEffect("the image is evaluated")),
    "LC-MEDIA-KV": lambda v, b: f"the request fails, no free KV cells for an image: {v}",
    "LC-MEDIA-LORA": lambda v, b: NoEffect("the image is evaluated under the request's adapters") if v == b["own"] else
    "the image is evaluated under the adapters of the previous batch",
    "LC-MEDIA-OFF": lambda v, b: NoEffect("positions can be moved") if v else (
        "no context shift and no reuse of moved blocks with a projector" if b["projector"] else
        NoEffect("positions cannot be moved")),
    "LC-TASK-FIRST": lambda v, b: f"the request is refused before it has a slot: {v}" if v else (
        "the prompt has a token that the model does not have: slots are compared with it all the same"),
    "LC-MEDIA-LAST": lambda v, b: f"the request is refused: {v}" if v else (
        "the prompt ends with an image: the request is started all the same"),
    "LC-MEDIA-SIZE": lambda v, b: f"the request is refused: {v}" if v else (
        f"an image of {b['n_tokens']} tokens, n_ubatch = {b['n_ubatch']}: the request is started all the same"),
    "LC-MEDIA-BACK": lambda v, b: f"n_past = {v}" + (
        ": the last token of an image" if v == b["n_past"] else f" before an image, in place of {b['n_past']}"),
    "LC-MEDIA-AGAIN": lambda v, b: "no free KV cells for an image: " + (
        "an idle slot may be cleared" if v else "no idle slot is cleared"),
    "LC-MEDIA-REASON": lambda v, b: NoEffect("a checkpoint is due after an image" if v else
                                             "an image does not make a checkpoint due"),
    "LC-MEDIA-FILE": lambda v, b: f"the slot file is refused: {v}" if v else NoEffect("the slot file is restored"),
}
