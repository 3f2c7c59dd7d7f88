"""Scopes, effects, the composite effect, and hook dispatch on pluggy (design §4, contracts §10)."""
