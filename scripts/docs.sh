#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make docs: Documentation as HTML, in build/docs. Prints where it begins, and what
# Sphinx and kernel-doc complain of, each of which is a failure.
#
# SETUP=no	installs nothing and lists what is missing
#
# Exit status: 0; 1 for a complaint; 4 for a failed set-up.

set -u -o pipefail
. "$(dirname "$0")/lib.sh"

OUT=$TOP/build/docs

KERNELS='' "$TOP/scripts/setup.sh" || exit "$EXIT_SETUP"
mkdir -p "$OUT"
# Two runs in one tree are to wait for each other.
exec 7>"$OUT/.lock"
flock 7
# All of it anew (-E): Sphinx does not complain twice. Sources are not written to.
cd "$TOP" &&
	PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8 sphinx-build -q -E -W --keep-going -b html \
		-D kernel_doc="$(source_dir)/scripts/kernel-doc" -d "$OUT/.doctrees" \
		Documentation "$OUT" || exit 1
echo "$OUT/index.html"
