"""Models, configs, prompt sets, cells and the run order. Pure."""
