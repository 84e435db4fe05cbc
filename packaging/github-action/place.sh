#!/usr/bin/env bash
# Where the binary is kept between runs of a workflow, and by which key: place.sh
#
# The key is made of the sources, so that a binary is never used for others.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
sources=$(cd "$root" && find . -path ./target -prune -o -path ./.git -prune -o -type f -print0 |
	LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-16)
echo "folder=${RUNNER_TOOL_CACHE:-$HOME/.cache}/avicenna/$sources"
echo "key=avicenna-$(uname -sm | tr ' ' -)-$sources"
