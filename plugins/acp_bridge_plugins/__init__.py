"""First-party plugins: one folder, one plugin; hook implementations only in its plugin.py."""
