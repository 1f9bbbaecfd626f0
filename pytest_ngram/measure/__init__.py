"""Runs a cell and fills its record."""
