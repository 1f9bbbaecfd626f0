"""Renders what others computed."""
