"""The drafters as policies over token ids, and replay over recorded requests. Pure."""
