"""Replay over saved runs: reads them, checks drafters against what servers did, sweeps settings."""
