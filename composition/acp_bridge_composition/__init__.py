"""The composition: the only place that knows every part, their order and the settings."""
