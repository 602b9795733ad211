#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make bench-compare A=OLD B=NEW: what moved between two reports of make bench
#
#	THRESHOLD	in percent (1)

set -eu
. "$(dirname "$0")/../../scripts/lib.sh"

if [ -z "${A:-}" ] || [ -z "${B:-}" ]; then
	die "which reports? make bench-compare A=old.json B=new.json"
fi
command -v jq >/dev/null || die "jq is not installed; make setup does that"
jq -n -r -L "$TOP/selftests/bench" --slurpfile a "$A" --slurpfile b "$B" \
	--arg threshold "${THRESHOLD:-1}" -f "$TOP/selftests/bench/compare.jq"
