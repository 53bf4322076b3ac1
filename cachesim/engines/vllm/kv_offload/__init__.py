"""Chunks of blocks in CPU memory."""
