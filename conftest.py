"""What pytest needs at the root: plugin tests run pytest inside pytest."""

pytest_plugins = ["pytester"]
