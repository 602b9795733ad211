#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make vm: a shell in the VM, or, with CMD, a command: prints what it prints
# and exits with its status. See make help and vm.bash for the rest.
#
# If the VM dies, or its log has what the file deny names, the status is 125.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"
. "$TOP/selftests/vm/vm.bash"

VM_BROKEN=125

KERNEL=${KERNELS:-6.12}
KERNEL=${KERNEL##* }
MODULE=$TOP/build/$(kernel_release "$KERNEL")/devpool.ko
MODULE_PARAMS=${PARAMS:-}

mkdir -p "$TOP/build"
dir=$(mktemp -d "$TOP/build/vm.XXXXXX") || exit
trap 'vm_kill; rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

vm_begin "$dir/vm" || exit
for f in ${FILES:-}; do
	vm_add "$f" files
done
vm_tools

if [ -n "${VM_CMD:-}" ]; then
	printf '%s\n' "$VM_CMD" >"$VM/root/etc/command"
	vm_conf VM_MODE command
	mode=stdio
else
	[ -t 0 ] || die "make vm without CMD is a shell and needs a terminal"
	vm_conf VM_MODE shell
	read -r rows cols < <(stty size)
	vm_conf VM_ROWS "$rows"
	vm_conf VM_COLS "$cols"
	say "'exit' ends the VM; the kernel's log is in dmesg"
	mode=shell
fi
whole=1
if vm_start $mode; then
	vm_wait
	whole=$?
fi

log=$(vm_log)
err=$(vm_get error)
if [ -n "$log" ]; then
	say "in the kernel's log:"
	grep -a -A 40 -E -f <(vm_patterns "$VM_SRC/deny") "$VM/console.log" | tr -d '\r' >&2
fi
[ -z "$err" ] || say "$err"
if [ $whole != 0 ] && [ -z "$log" ]; then
	say "the VM ended without a verdict; the end of its console:"
	tail -n 15 "$VM/console.log" | tr -d '\r' >&2
fi
if [ $whole != 0 ] || [ -n "$log" ] || [ -n "$err" ]; then
	exit $VM_BROKEN
fi
if ! vm_proven; then
	say "the module in the VM is not the one that was built"
	exit $VM_BROKEN
fi
exit "$(vm_get status)"
