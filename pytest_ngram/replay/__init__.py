"""Replay over saved runs: reads them and tables, checks drafters against what servers did, sweeps settings."""
