#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# plots.sh REPORT FOLDER: the plots of a report, as SVG

set -eu -o pipefail
bench=$(dirname "$0")

tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
jq -r -f "$bench/plots.jq" "$1" >"$tmp/data"
gnuplot -e "data = '$tmp/data'; out = '$tmp'" "$bench/plots.gp"
for f in "$tmp"/*.svg; do
	{
		echo "<!-- SPDX-License-Identifier: GPL-2.0-only -->"
		# Without what must be the first line, and white space at ends.
		sed -e '/^<?xml/d' -e 's/[ \t]*$//' "$f" | sed -e '${/^$/d}'
	} >"$2/${f##*/}"
done
