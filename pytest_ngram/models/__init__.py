"""Model files: what a GGUF file says of itself, the memory it needs, and the hand-built model."""
