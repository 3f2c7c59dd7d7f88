-- CodeCompanion (Neovim): put this into your setup. `env` takes names of environment variables or "cmd:..." commands.
require("codecompanion").setup({
  adapters = {
    acp = {
      acp_bridge = function()
        return require("codecompanion.adapters").extend("kimi_cli", {
          name = "acp_bridge",
          formatted_name = "acp-bridge",
          commands = { default = { "acp-bridge" } },
          env = {
            ACP_BRIDGE_MODEL = "ACP_BRIDGE_MODEL",
            OPENAI_API_KEY = "OPENAI_API_KEY",
            OPENAI_BASE_URL = "OPENAI_BASE_URL",
          },
          defaults = { timeout = 60000 },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "acp_bridge" } },
})
