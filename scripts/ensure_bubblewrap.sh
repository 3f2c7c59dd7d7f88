#!/bin/sh
# Commands run under bubblewrap. Where apt is there and we may use it, install it; elsewhere say what is missing.
command -v bwrap >/dev/null 2>&1 && exit 0
if command -v apt-get >/dev/null 2>&1; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "==> Installing bubblewrap (the sandbox for commands)"
    { $sudo apt-get install -y -qq bubblewrap || { $sudo apt-get update -qq && $sudo apt-get install -y -qq bubblewrap; }; } >/dev/null 2>&1
fi
command -v bwrap >/dev/null 2>&1 && exit 0
echo "bubblewrap (bwrap) is not installed: the agent will refuse to run commands. Install the package 'bubblewrap'."
