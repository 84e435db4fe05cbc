#!/usr/bin/env bash
# Runs the steps of the action as a runner would, in an environment of its own: test.sh RUN
#
# RUN is the action's input. What the cache is for is tried by doing it twice: the second time builds nothing.
set -euo pipefail
run=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The `run:` of each step of the action, in order, with what the runner puts in for its expressions.
steps() { # folder
	python3 - "$here" "$1" "$run" <<'PY'
import re, sys
here, folder, run = sys.argv[1:]
text = open(f"{here}/action.yml").read()
values = {"github.action_path": here}
steps = re.findall(r"^ +run: (.*)$", text, re.M)
assert len(steps) == 3, steps
for step in steps:
    print(re.sub(r"\$\{\{ *(.*?) *\}\}", lambda found: values[found[1]], step))
PY
}

workflow() { # path
	export GITHUB_OUTPUT=$work/output GITHUB_PATH=$work/path RUNNER_TOOL_CACHE=$work/tools PATH=$1
	: >"$GITHUB_OUTPUT" >"$GITHUB_PATH"
	bash -eo pipefail -c "$(steps "" | sed -n 1p)"
	local folder
	folder=$(sed -n 's/^folder=//p' "$GITHUB_OUTPUT")
	grep -q '^key=avicenna-' "$GITHUB_OUTPUT"
	export FOLDER=$folder AVICENNA_RUN=$run
	bash -eo pipefail -c "$(steps "$folder" | sed -n 2p)"
	PATH=$(cat "$GITHUB_PATH"):$PATH bash -eo pipefail -c "$(steps "$folder" | sed -n 3p)"
}

(workflow "$PATH")
# With the cache there, no toolchain is needed.
(workflow /usr/bin:/bin)
echo "ok: built once, used twice"
