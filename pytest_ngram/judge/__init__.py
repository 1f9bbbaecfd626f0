"""Judges records and answers: compares what was measured, knows no server, opens no file. Pure."""
