"""Building the product from its parts.

Owns: the services that are no plugin (store, registries, pipeline) and the composite effect. Must not know: argv,
descriptors. Invariant: one composite effect owns plugins, persistence, checkpoint policy and bridge, in that order;
undone in reverse, so agents come to rest and their real endings are flushed before the policy and then storage go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from acp_bridge import hookspecs
from acp_bridge.agent.parts import AgentParts
from acp_bridge.approval.approval import Approval
from acp_bridge.bridge.plugin import AcpBridge
from acp_bridge.errors import AuthRequired
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.lifecycle.kernel import Context, Kernel, Plugin
from acp_bridge.lifecycle.scope import Scope, open_scope
from acp_bridge.llm.model import MODELS, Models
from acp_bridge.session.events import RequestConfig
from acp_bridge.session.session import SessionStore
from acp_bridge.tools.pipeline import Pipeline
from acp_bridge.tools.registry import TOOLS, Tools
from acp_bridge.wire.transport import Transport
from acp_bridge_composition.order import DURABLE_ORDER, PLUGINS
from acp_bridge_composition.settings import OpenaiSettings, Settings, load_settings
from acp_bridge_composition.system_prompt import system_prompt

__all__ = ["UNDO_SECONDS", "Workshop", "composed"]

# Seconds for each part. The agents need most of it: a running command gets its grace period before it is killed.
UNDO_SECONDS = 1.8

NO_MODEL = (
    "No model is configured. Set ACP_BRIDGE_MODEL, for example openai/gpt-5, with OPENAI_API_KEY (and OPENAI_BASE_URL "
    "for another endpoint) in the editor's agent configuration, or run `acp-bridge login` in a terminal."
)


class Workshop:
    """Everything that plugins are built from. `environ` is read again when no model is usable (after a login)."""

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
        self.kernel = Kernel(hookspecs, diagnostics)
        self.store = SessionStore(self.kernel.hooks)
        self.models = Models()
        self.tools = Tools()
        approval = Approval(self.kernel.hooks, diagnostics)
        parts = AgentParts(
            self.kernel.hooks,
            self.store,
            self.models,
            self.tools,
            Pipeline(self.kernel.hooks, self.tools, approval, diagnostics),
            diagnostics,
            self.request_config,
            system_prompt,
            settings.max_steps,
            settings.max_parallel_tools,
        )
        self.bridge = AcpBridge(version, transport, parts, self.missing_model)

    def request_config(self) -> RequestConfig:
        """Raises AuthRequired."""
        route = self.settings.route
        if route is None:
            raise AuthRequired(NO_MODEL)
        return RequestConfig(route.provider, route.model)

    def missing_model(self) -> str | None:
        """None when the configured model can be used now."""
        return self._unusable() and (self._reread() or self._unusable())

    def openai_credentials(self) -> OpenaiSettings:
        return self.settings.openai

    def editor_name(self) -> str | None:
        return self.bridge.client_name

    def _unusable(self) -> str | None:
        route = self.settings.route
        return NO_MODEL if route is None else self.models.unusable(route.provider, route.model)

    def _reread(self) -> None:
        self.settings = load_settings(self._environ)


async def composed(shop: Workshop, root: Scope) -> None:
    """Mount the product into `root` as one composite effect."""
    parts = [("plugins", lambda: _plugins(shop))]
    parts += [(name, _mounted(shop, make)) for name, make in DURABLE_ORDER]
    await root.composite("product", parts, undo_seconds=UNDO_SECONDS)


def _mounted(shop: Workshop, make: Callable[[Workshop], Plugin]) -> Callable[[], AbstractAsyncContextManager[Scope]]:
    return lambda: shop.kernel.mounted(make(shop))


@asynccontextmanager
async def _plugins(shop: Workshop) -> AsyncIterator[Scope]:
    """The registries, then every plugin of the first table as a sibling."""
    async with open_scope("plugins", undo_seconds=UNDO_SECONDS) as scope:
        context = Context(shop.kernel, "composition", scope)
        await context.provide(MODELS, shop.models)
        await context.provide(TOOLS, shop.tools)
        for make in PLUGINS:
            plugin = make(shop)
            await scope.effect(plugin.name, shop.kernel.mounted(plugin))
        yield scope
