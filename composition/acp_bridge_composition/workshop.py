"""What plugins are built from: the services that are no plugin, and the settings.

Owns: one object graph of store, registries, pipeline and bridge. Must not know: which plugins there are, their order.
Invariant: building starts nothing and reads nothing but settings; their files are read again when they have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

import anyio

from acp_bridge import hookspecs
from acp_bridge.agent.parts import AgentParts
from acp_bridge.approval.approval import Approval
from acp_bridge.bridge.plugin import AcpBridge
from acp_bridge.errors import AuthRequired, SettingsError
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.lifecycle.kernel import Kernel, Plugin
from acp_bridge.llm.model import Models
from acp_bridge.session.events import ModelChosen, RequestConfig
from acp_bridge.session.fold import last_body, turn_is_open
from acp_bridge.session.session import Session, SessionStore
from acp_bridge.tools.pipeline import Pipeline
from acp_bridge.tools.registry import Tools
from acp_bridge.wire.transport import Transport
from acp_bridge_composition.settings import ModelRoute, Settings, load_settings, settings_stamp
from acp_bridge_composition.system_prompt import system_prompt

__all__ = ["NO_MODEL", "Workshop"]

NO_MODEL = (
    "No model is configured. Set ACP_BRIDGE_MODEL, for example openai/gpt-5, with OPENAI_API_KEY (and OPENAI_BASE_URL "
    "for another endpoint) in the editor's agent configuration, or run `acp-bridge login` in a terminal."
)


class Workshop:
    """Everything that plugins are built from. A login, or an edit of config.toml, counts from the next prompt on."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        diagnostics: Diagnostics,
        version: str,
        transport: Callable[[], AbstractAsyncContextManager[Transport]],
    ) -> None:
        self.settings = settings
        self._environ = environ
        # As of the start: what is mounted keeps the bounds that it was mounted with.
        self.deadlines = settings.deadlines
        # Set by the first prompt, or by a refusal. Before that nothing is worth what it costs the start.
        self.in_use = anyio.Event()
        # Without a model the files are read once more, to say why.
        self.stamp = settings_stamp(settings.config_dir) if settings.route else None
        self.kernel = Kernel(hookspecs, diagnostics)
        self.store = SessionStore(self.kernel.hooks)
        self.models = Models()
        self.tools = Tools()
        approval = Approval(diagnostics)
        self.parts = AgentParts(
            self.store,
            self.models,
            self.tools,
            Pipeline(self.tools, approval, diagnostics),
            diagnostics,
            self.request_config,
            system_prompt,
            settings.max_steps,
            settings.max_parallel_tools,
            self.offered,
        )
        # What keeps the agent from taking sessions, besides a model; the composition says it.
        self.trouble: Callable[[], str | None] | None = None
        self.bridge = AcpBridge(version, transport, self.parts, self.missing_model, rest_seconds=self.deadlines.rest)
        # The last part of the composite; other compositions put their own in its place before it is mounted.
        self.front: Plugin = self.bridge

    def request_config(self, session: Session) -> RequestConfig:
        """What the session has chosen, while that is offered; else the default. Raises AuthRequired."""
        if turn_is_open(session.log.events):
            self.in_use.set()
        chosen = last_body(session.log.events, ModelChosen)
        if chosen is not None and ModelRoute(chosen.provider, chosen.model) in self.settings.models:
            return RequestConfig(chosen.provider, chosen.model)
        route = self.settings.route
        if route is None:
            raise AuthRequired(NO_MODEL)
        return RequestConfig(route.provider, route.model)

    def offered(self) -> tuple[str, ...]:
        return tuple(f"{route.provider}/{route.model}" for route in self.settings.models)

    def missing_model(self) -> str | None:
        """None when the configured model can be used now, else the sentence that says what to set."""
        missing = self._missing()
        if missing is not None:
            self.in_use.set()
        return missing

    def _missing(self) -> str | None:
        stamp = settings_stamp(self.settings.config_dir)
        if stamp != self.stamp:
            try:
                self.settings, self.stamp = self.read_settings(), stamp
            except SettingsError as error:
                # Perhaps half written. What was good before goes on.
                return None if self._unusable() is None else str(error)
        return self._unusable()

    def read_settings(self) -> Settings:
        """What the environment and the files say now. Raises SettingsError."""
        return load_settings(self._environ)

    def openai_credentials(self) -> tuple[str | None, str | None]:
        return self.settings.openai.api_key, self.settings.openai.base_url

    def editor_name(self) -> str | None:
        return self.bridge.client_name

    def _unusable(self) -> str | None:
        trouble = self.trouble() if self.trouble else None
        if trouble is not None:
            return trouble
        route = self.settings.route
        return NO_MODEL if route is None else self.models.unusable(route.provider, route.model)
