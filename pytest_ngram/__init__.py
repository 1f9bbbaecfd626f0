"""Speculative decoding of llama.cpp, measured as pytest benchmark cells and judged by gates."""

__version__ = "0.1.0"
