# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Boots a VM on a stock or a debug kernel. To be sourced, after scripts/lib.sh:
#
#	vm_begin FOLDER		all that belongs to this VM goes there
#	vm_add FILE TO		into the VM, with the libraries that it needs
#	vm_tools		devpool's own tools, and jq, which reads what they print
#	vm_conf NAME VALUE	a variable for process 1 (selftests/vm/init)
#	vm_start, vm_wait	runs it; 0 if the verdict is whole
#	vm_kill			whoever sources this calls it on exit
#
# What a VM is like, from the environment or from make's command line:
#
#	KERNEL		series (6.12) or debug kernel (6.12-kasan)
#	MODULE		the module's file; MODULE_PARAMS its parameters
#	LOAD=no		does not load it
#	MODULES		modules of the stock kernel to load before it
#	MEM CPUS	size (2G, 2)
#	APPEND		more for the kernel's command line
#	QEMU_EXTRA	more for QEMU's
#	ICOUNT=1	the clock counts instructions; one CPU
#	VM_TIMEOUT	seconds after which the VM is ended
#
# The results in the folder: console.log, out.log, verdict, config, qemu.sh and,
# where the kernel counts what code is run, gcda.tar.

VM_SRC=$TOP/selftests/vm
VM_SLOW=10

vm_begin()
{
	VM=$1
	rm -rf "$VM"
	mkdir -p "$VM/root"/{bin,etc,files,lib/stock,tests,usr/bin}
	# A verdict is believed only with this run's own token in it.
	VM_TOKEN=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
	: >"$VM/root/etc/vm.conf"
	: >"$VM/console.log"
	: >"$VM/verdict"
	cp "$VM_SRC/init" "$VM/root/init"
	cp "$VM_SRC/kcsan.awk" "$VM/root/etc/kcsan.awk"
	cp "$(command -v busybox)" "$VM/root/bin/busybox"
	ln -s busybox "$VM/root/bin/sh"
	vm_patterns "$VM_SRC/deny" >"$VM/root/etc/deny"
	vm_allowed "$VM_SRC/allow" >"$VM/root/etc/allow" || return
	vm_conf VM_TOKEN "$VM_TOKEN"
}

# The patterns of the file deny: no comments, no empty line, which would match
# every line.
vm_patterns()
{
	grep -v -E '^#|^$' "$1"
}

vm_allowed()
{
	local pattern reason

	while IFS=$'\t' read -r pattern reason; do
		case $pattern in
		'' | \#*) continue ;;
		esac
		if [ -z "$reason" ]; then
			say "$1: '$pattern' has no reason"
			return 1
		fi
		echo "$pattern"
	done <"$1"
}

vm_conf()
{
	printf '%s=%q\n' "$1" "$2" >>"$VM/root/etc/vm.conf"
}

# What the runner's own variables would say twice is left out.
vm_export()
{
	printf 'export %s=%q\n' "$1" "$2" >>"$VM/root/etc/vm.conf"
}

# vm_libraries FILE: what the dynamic linker will look for, into the folders
# where it always looks
vm_libraries()
{
	local lib

	LD_LIBRARY_PATH=$TOP/build/lib ldd "$1" 2>/dev/null |
		sed -n -e 's/.*=> \(\/[^ ]*\) (0x.*/\1/p' -e 's/^\t\(\/[^ ]*\) (0x.*/\1/p' |
		while read -r lib; do
			case $lib in
			*/ld-linux*)
				mkdir -p "$VM/root/lib64"
				cp -Lu "$lib" "$VM/root/lib64/"
				;;
			*)
				mkdir -p "$VM/root/lib/x86_64-linux-gnu"
				cp -Lu "$lib" "$VM/root/lib/x86_64-linux-gnu/"
				;;
			esac
		done
}

vm_add()
{
	local f

	[ -e "$1" ] || die "no such file: $1"
	mkdir -p "$VM/root/$2"
	cp -rL "$1" "$VM/root/$2/"
	while IFS= read -r -d '' f; do
		if [ "$(head -c 4 "$f" | tr -d '\0')" = $'\x7fELF' ]; then
			vm_libraries "$f"
		fi
	done < <(find -L "$1" -type f -print0)
}

vm_tools()
{
	local f

	for f in "$TOP"/build/tools/static/* "$(command -v jq)"; do
		[ ! -x "$f" ] || vm_add "$f" usr/bin
	done
}

# The stock modules named in MODULES and what they depend on, in order.
vm_stock()
{
	local m kind file f dir list='' release=$1

	dir=$(kernel_dir "$KERNEL")
	for m in ${MODULES:-}; do
		modprobe -d "$dir" -S "$release" --show-depends "$m" >"$VM/depends" || {
			say "kernel $KERNEL has no module $m"
			return 1
		}
		while read -r kind file _; do
			[ "$kind" = insmod ] || continue
			f=${file##*/}
			case $f in
			*.xz) f=${f%.xz}; xz -dc "$file" >"$VM/root/lib/stock/$f" ;;
			*) cp "$file" "$VM/root/lib/stock/$f" ;;
			esac
			case " $list " in
			*" $f "*) ;;
			*) list="$list $f" ;;
			esac
		done <"$VM/depends"
	done
	vm_conf VM_STOCK "$list"
}

vm_accel()
{
	if [ "${ICOUNT:-}" = 1 ]; then
		# TCG counts each byte of a "rep stos" as an instruction: erms
		# and fsrm would make zeroing look dearer than it is.
		echo "-accel tcg -icount shift=0,sleep=off -cpu max,-erms,-fsrm -smp 1"
		return
	fi
	if vm_kvm; then
		echo "-accel kvm -cpu max -smp ${CPUS:-2}"
	else
		echo "-accel tcg,thread=multi -cpu max -smp ${CPUS:-2}"
	fi
}

# vm_kvm: does KVM run this kernel? That /dev/kvm is there does not say so: inside
# some hypervisors it takes kernels made for it only. Tried once for each boot of
# this machine: a kernel without an initramfs panics, and QEMU ends.
vm_kvm()
{
	local known=$CACHE/kvm boot answer=no

	[ -w /dev/kvm ] || return
	boot=$(</proc/sys/kernel/random/boot_id)
	if [ "$(cut -d ' ' -f 1 "$known" 2>/dev/null)" != "$boot" ]; then
		! timeout -k 1 20 qemu-system-x86_64 -accel kvm -cpu max -m 512M \
			-nodefaults -no-user-config -display none -no-reboot \
			-kernel "$(kernel_vmlinuz "$KERNEL")" -append panic=-1 \
			>/dev/null 2>&1 || answer=yes
		echo "$boot $answer" >"$known.$$"
		mv "$known.$$" "$known"
	fi
	[ "$(cut -d ' ' -f 2 "$known")" = yes ]
}

vm_module()
{
	local name importer

	vm_conf VM_LOAD "${LOAD:-yes}"
	[ "${LOAD:-yes}" = yes ] || { vm_conf VM_MODULE none; return; }
	name=$(basename "$MODULE" .ko)
	cp "$MODULE" "$VM/root/lib/"
	if [ -e "${MODULE%.ko}_kunit.ko" ]; then
		cp "${MODULE%.ko}_kunit.ko" "$VM/root/lib/"
		vm_export DEVPOOL_KUNIT_KO "/lib/${name}_kunit.ko"
	fi
	importer=${MODULE%/*}/modules/importer/importer.ko
	if [ -e "$importer" ]; then
		cp "$importer" "$VM/root/lib/"
		vm_export DEVPOOL_IMPORTER_KO /lib/importer.ko
	fi
	modinfo -F srcversion "$MODULE" >"$VM/srcversion"
	if [ -z "$(<"$VM/srcversion")" ]; then
		say "$MODULE has no srcversion: it needs a MODULE_VERSION"
		return 1
	fi
	vm_conf VM_MODULE "$name"
	vm_conf VM_PARAMS "${MODULE_PARAMS:-}"
	# For tests that load it again.
	vm_export DEVPOOL_KO "/lib/$name.ko"
	vm_export DEVPOOL_PARAMS "${MODULE_PARAMS:-}"
}

# vm_debug: what a debug kernel is told at boot. A race is a warning there, and
# the kernel has races of its own: what is not to be is seen in the log.
vm_debug()
{
	case $KERNEL in
	*-kasan) echo "tsc=reliable panic_on_warn=1 page_owner=on" ;;
	*-kcsan) echo "tsc=reliable panic_on_warn=0" ;;
	*) echo "panic_on_warn=1" ;;
	esac
}

# vm_run COMMAND...: QEMU, as a process of its own. Where it emulates two processors it
# sometimes runs an instruction that the kernel has just replaced, as it does when it
# boots and when events are traced, and the kernel dies of it ("Oops: int3"). That says
# nothing of what is tested: once more.
vm_run()
{
	local child='' left=2 status

	trap '[ -z "$child" ] || kill "$child" 2>/dev/null' TERM INT
	while :; do
		status=0
		"$@" <&6 6<&- &
		child=$!
		wait "$child" || status=$?
		if [ $left = 0 ] || ! vm_died_of_emulation; then
			break
		fi
		left=$((left - 1))
		say "the kernel died of its emulation: once more"
	done
	exit $status
}

vm_died_of_emulation()
{
	grep -q -a 'Kernel panic' "$VM/console.log" || return
	! grep -q -a 'Run /init as init process' "$VM/console.log" ||
		grep -q -a 'Oops: int3' "$VM/console.log"
}

# vm_start [stdio|shell]: with stdio, ttyS1 is this process's output, with
# shell it is its terminal, and the VM runs for as long as it likes.
vm_start()
{
	local release out name limit

	KERNEL=${KERNEL:-6.12}
	release=$(kernel_release "$KERNEL")
	vm_module || return
	vm_stock "$release" || return
	# One idle spell, so that the kernel's late initcalls do not share the
	# CPU with what is counted.
	vm_conf VM_IDLE "${ICOUNT:+4}"
	# make's own command line reaches us in the environment.
	while read -r name; do
		case $name in
		DEVPOOL_KO | DEVPOOL_PARAMS) ;;
		DEVPOOL_*) vm_export "$name" "${!name}" ;;
		esac
	done < <(compgen -e)
	# How many times longer than on a stock kernel a test may take
	if [[ $KERNEL = *-* ]] && [ -z "${DEVPOOL_SLOW:-}" ]; then
		vm_export DEVPOOL_SLOW "$VM_SLOW"
	fi
	cp "$(kernel_dir "$KERNEL")/boot/config-$release" "$VM/config"

	(cd "$VM/root" && find . | cpio --quiet -o -H newc -R 0:0) >"$VM/initramfs" || return
	out="stdio,id=out,signal=off"
	limit=(timeout -k 5 "${VM_TIMEOUT:-600}")
	case ${1:-} in
	stdio) ;;
	shell) limit=() ;;
	*) out="file,id=out,path=$VM/out.log" ;;
	esac
	# What a shell starts in the background has no input unless told.
	exec 6</dev/null
	[ "${1:-}" != shell ] || exec 6<&0
	# shellcheck disable=SC2046,SC2086
	set -- qemu-system-x86_64 $(vm_accel) -m "${MEM:-2G}" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$(kernel_vmlinuz "$KERNEL")" -initrd "$VM/initramfs" \
		-append "console=ttyS0,115200 panic=-1 oops=panic $(vm_debug) \
cryptomgr.notests no_timer_check log_buf_len=8M printk.devkmsg=on loglevel=7 ${APPEND:-}" \
		-serial "file:$VM/console.log" \
		-chardev "$out" -serial chardev:out \
		-serial "file:$VM/verdict" \
		-serial "file:$VM/gcda.tar" \
		${QEMU_EXTRA:-}
	printf '%q ' "$@" >"$VM/qemu.sh"
	vm_run "${limit[@]}" "$@" &
	VM_PID=$!
	exec 6<&-
}

vm_wait()
{
	local status=0

	wait "$VM_PID" || status=$?
	VM_PID=
	rm -rf "$VM/root" "$VM/initramfs"
	[ -s "$VM/gcda.tar" ] || rm -f "$VM/gcda.tar"
	if [ $status = 124 ] || [ $status = 137 ]; then
		say "the VM was ended after ${VM_TIMEOUT:-600} s"
	fi
	[ "$(tail -n 1 "$VM/verdict")" = "done $VM_TOKEN" ]
}

vm_kill()
{
	[ -z "${VM_PID:-}" ] || kill "$VM_PID" 2>/dev/null
}

# vm_log: what the deny file finds in the console's log. The VM has scanned
# its own copy; this one also has what came after.
vm_log()
{
	vm_patterns "$VM_SRC/deny" >"$VM/deny"
	vm_allowed "$VM_SRC/allow" >"$VM/allow"
	tr -d '\r' <"$VM/console.log" | awk -f "$TOP/selftests/vm/kcsan.awk" |
		grep -a -E -f "$VM/deny" |
		if [ -s "$VM/allow" ]; then grep -v -E -f "$VM/allow"; else cat; fi
	rm -f "$VM/deny" "$VM/allow"
}

# vm_get KEY: the verdict's line of that name
vm_get()
{
	sed -n "s/^$1 //p" "$VM/verdict"
}

# vm_proven: the module that ran is the one that was built
vm_proven()
{
	[ "${LOAD:-yes}" != yes ] || cmp -s "$VM/srcversion" <(vm_get srcversion)
}
