#!/usr/bin/env bash
# Runs avicenna with the words of $AVICENNA_RUN: blanks part them, quotes and backslashes join them as
# in a shell, stars find files, and nothing is run or replaced.
set -euo pipefail
words=()
while IFS= read -r -d '' word; do
	words+=("$word")
done < <(xargs printf '%s\0' <<<"$AVICENNA_RUN")
found=()
for word in "${words[@]}"; do
	case $word in
	-* | *' '*) found+=("$word") ;;
	*)
		matches=()
		IFS= mapfile -t matches < <(compgen -G "$word" || true)
		if [ ${#matches[@]} -gt 0 ]; then found+=("${matches[@]}"); else found+=("$word"); fi
		;;
	esac
done
exec avicenna "${found[@]}"
