"""All planted faults: those written by hand for each engine, and those generated from the sources."""

from __future__ import annotations

from pathlib import Path

from tests.meta.faults_ik_llama import IK_LLAMA
from tests.meta.faults_llama_cpp import LLAMA_CPP
from tests.meta.faults_mlx_lm import MLX_LM
from tests.meta.generate import generated

WRITTEN = [*LLAMA_CPP, *IK_LLAMA, *MLX_LM]
GENERATED = generated(Path(__file__).parents[2])
FAULTS = [*WRITTEN, *GENERATED]
