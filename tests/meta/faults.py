"""All faults that are planted in engines, for the search to find."""

from __future__ import annotations

from tests.meta.faults_ik_llama import IK_LLAMA
from tests.meta.faults_llama_cpp import LLAMA_CPP
from tests.meta.faults_mlx_lm import MLX_LM

FAULTS = [*LLAMA_CPP, *IK_LLAMA, *MLX_LM]
