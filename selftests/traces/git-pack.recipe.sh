#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Record git-pack.csv: git packs a repository with four threads.
#
#   git-pack.recipe.sh DEVPOOL-RECORD OUT.csv
#
# The repository holds the larger sources of Python's library, as the package
# libpython3.11-stdlib brings them. Looking for deltas, each thread takes and
# gives back the texts, the indexes over them and the deltas of a window of
# objects, all of different sizes; the first thread takes the results. Which
# thread gets which objects differs from run to run, so the trace does too.
set -eu

[ $# -eq 2 ] || { sed -n '3,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
recorder=$(realpath "$1")
out=$(realpath "$2")
corpus=/usr/lib/python3.11
min=4096

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Nobody's settings may change what git does here.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=devpool GIT_AUTHOR_EMAIL=devpool@localhost GIT_AUTHOR_DATE='@0 +0000'
export GIT_COMMITTER_NAME=devpool GIT_COMMITTER_EMAIL=devpool@localhost GIT_COMMITTER_DATE='@0 +0000'
git init -q
(cd "$corpus" && find . -name '*.py' -size +13k -print0 | LC_ALL=C sort -z |
	tar cf - --null -T -) | tar xf -
git add .
git commit -q -m corpus
git rev-list --objects --all >objects

"$recorder" -o trace.csv --min $min -- \
	git pack-objects --threads=4 --window=20 --no-reuse-delta -q --stdout <objects >pack

{
	cat <<-EOF
	# SPDX-License-Identifier: GPL-2.0-only
	# what: git pack-objects with four threads over $(wc -l <objects) objects, the larger sources of
	#   Python's library; recorded by git-pack.recipe.sh
	# packages: $(dpkg-query -W -f='${Package} ${Version}' git), $(dpkg-query -W -f='${Package} ${Version}' libpython3.11-stdlib)
	EOF
	cat trace.csv
} >"$out"
