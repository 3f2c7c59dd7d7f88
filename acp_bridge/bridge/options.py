"""What a person may choose for a session, as ACP config options (ACP: session config options; editors rule 18).

Owns: the list of options and what setting one means. Must not know: frames, where models come from.
Invariant: pure but for the one event that a choice appends; the mode is offered here and as ACP modes, from one log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acp_bridge.agent.lifetime import switch_mode
from acp_bridge.approval.modes import MODES, preset_of
from acp_bridge.errors import InvalidParams
from acp_bridge.session.events import ModelChosen, RequestConfig
from acp_bridge.session.session import Session

__all__ = ["choose", "config_options", "route_of"]


def route_of(config: RequestConfig) -> str:
    return f"{config.provider}/{config.model}"


def config_options(session: Session, current: str | None, offered: Sequence[str]) -> list[dict[str, Any]]:
    """`current` and `offered` are routes (`provider/model`); without a model there is none to choose."""
    mode = _select("mode", "Session mode", preset_of(session.log.events).id, {})
    mode["options"] = [{"value": one.id, "name": one.name, "description": one.description} for one in MODES.values()]
    if current is None:
        return [mode]
    return [mode, _select("model", "Model", current, {route: route for route in offered})]


def choose(session: Session, option: str, value: str, offered: Sequence[str]) -> None:
    """Raises InvalidParams for an option or a value that is not offered."""
    if option == "mode":
        switch_mode(session, MODES[_known(value, tuple(MODES))])
    elif option == "model":
        provider, _, model = _known(value, offered).partition("/")
        session.log.append(ModelChosen(provider, model))
    else:
        raise InvalidParams(f"There is no option {option!r}; there are mode and model.", field="configId")


def _known(value: str, values: Sequence[str]) -> str:
    if value not in values:
        raise InvalidParams(f"There is no value {value!r}; there are {', '.join(values) or 'none'}.", field="value")
    return value


def _select(id: str, name: str, current: str, values: dict[str, str]) -> dict[str, Any]:
    options = [{"value": value, "name": shown} for value, shown in values.items()]
    return {"id": id, "name": name, "category": id, "type": "select", "currentValue": current, "options": options}
