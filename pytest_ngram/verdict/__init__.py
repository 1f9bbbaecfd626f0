"""Estimates from records, the noise floor, and what to do: adopt, do not adopt, cannot tell. Pure."""
