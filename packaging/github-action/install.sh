#!/usr/bin/env bash
# Builds the binary unless the folder has it, and names the folder to put into PATH: install.sh FOLDER
#
# What only `exits` needs is left out, as `make demo` does.
set -euo pipefail
folder=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
if ! "$folder/bin/avicenna" -V >/dev/null 2>&1; then
	command -v cargo >/dev/null || {
		echo "install.sh: a Rust toolchain is needed to build avicenna: rustup.rs" >&2
		exit 1
	}
	cargo install --quiet --locked --no-default-features --path "$root/cli" --root "$folder" >&2
fi
"$folder/bin/avicenna" -V >&2
echo "$folder/bin"
