#!/usr/bin/env bash
# Installs what kagent needs from Debian's packages and the machine lacks: bubblewrap and g++.
set -euo pipefail
missing=()
command -v bwrap >/dev/null || missing+=(bubblewrap)
command -v g++ >/dev/null || missing+=(g++)
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
[ ${#missing[@]} -eq 0 ] && exit 0
install="apt-get update -qq && apt-get install -y -qq --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  bash -c "$install" >/dev/null
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  sudo -n bash -c "$install" >/dev/null
else
  echo "error: ${missing[*]} missing; as root run: $install" >&2
  exit 2
fi
