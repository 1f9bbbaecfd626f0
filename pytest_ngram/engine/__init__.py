"""Engines: what answers as llama-server."""
