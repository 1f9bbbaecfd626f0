"""Estimates from records. Pure."""
