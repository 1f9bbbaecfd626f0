"""`pytest-ngram doctor`: what of this host and project would spoil a long run, told in seconds before it."""

from pytest_ngram.doctor.checkup import Asked, checkup

__all__ = ["Asked", "checkup"]
