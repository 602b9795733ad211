#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the command lines that README.md and the pages of the manual show, those
# that need a device. The others are run by selftests/host/readme.sh, which also
# sees to it that none is left out.

# busybox has local, as dash does.
# shellcheck shell=dash

tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit
# What they find in their folder, as devpool-record has written it
cp "$TRACES/git-pack.csv" sort.csv || exit

lines()
{
	cat <<'END'
devpoolctl list
devpoolctl pools
devpoolctl pools --json devpool0 | jq -r 'max_by(.resident) | .comm'
devpoolctl trim 64M
devpool-replay --check --scale 1/16 sort.csv
devpool-replay --streams --delay 1000 sort.csv
END
}

number=0
failed=0
echo "1..$(lines | wc -l)"
while IFS= read -r line; do
	number=$((number + 1))
	if sh -c "$line" </dev/null >out 2>&1; then
		echo "ok $number $line"
	else
		sed 's/^/# /' out
		echo "not ok $number $line"
		failed=1
	fi
done <<END
$(lines)
END
[ $failed = 0 ]
