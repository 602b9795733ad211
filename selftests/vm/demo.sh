#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make demo: runs selftests/demo/demo.sh in a VM on one stock kernel, with what
# selftests/demo has and the traces beside it. Ends with its status.

set -eu -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

KERNELS=${KERNELS:-6.12}
export KERNELS=${KERNELS##* }

"$TOP/scripts/setup.sh"
"$TOP/scripts/build.sh" --tests "$KERNELS"
cd "$TOP"
FILES=$(find selftests/demo build/selftests/demo selftests/traces -maxdepth 1 -type f \
	! -name '*.[ch]' ! -name '*.md' 2>/dev/null)
export FILES
export VM_CMD='sh ./demo.sh'
exec selftests/vm/run.sh
