"""`python -I -m acp_bridge_composition`, for editors that start a module."""

from acp_bridge_composition.main import main

main()
