"""Judges what was measured: compares records, knows no server. Pure."""
