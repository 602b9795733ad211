#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make bench-compare A=OLD B=NEW: what moved between two reports of make bench
#
#	THRESHOLD	in percent (1)

set -eu
. "$(dirname "$0")/../../scripts/lib.sh"

if [ -z "${A:-}" ] || [ -z "${B:-}" ]; then
	die "which reports? make bench-compare A=old.json B=new.json; make bench leaves them in build/bench"
fi
command -v jq >/dev/null || die "jq is not installed; make setup does that"
for report in "$A" "$B"; do
	[ -r "$report" ] || die "$report: no such report"
	jq -e '.schema and .measured and .groups' "$report" >/dev/null 2>&1 ||
		die "$report: not a report of make bench"
done
[ "$(jq .schema "$A")" = "$(jq .schema "$B")" ] ||
	die "the reports mean different things (.schema): make the older one anew"
jq -n -r -L "$TOP/selftests/bench" --slurpfile a "$A" --slurpfile b "$B" \
	--arg threshold "${THRESHOLD:-1}" -f "$TOP/selftests/bench/compare.jq"
