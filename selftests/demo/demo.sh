#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The demonstration, with the module loaded: demo.sh [TRACE [NODE]]. Without a
# trace: torch-gpt.csv, or else any that is beside this script.

here=$(cd "$(dirname "$0")" && pwd)
trace=${1:-}
if [ -z "$trace" ]; then
	for trace in "$here"/torch-gpt.csv "$here"/*.csv; do
		[ ! -f "$trace" ] || break
	done
fi
exec "$here/demo" "$trace" "${2:-/dev/devpool0}"
