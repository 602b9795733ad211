#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# TAP test of the command lines that README.md and the pages of the manual show:
# they are run in a copy of the tree, in the order in which a reader meets them.
# What cannot be run here is named, with the reason, and a line that is not named
# at all fails.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

series=${KERNELS:-6.12}
export KERNELS=${series##* }
export SETUP=no
unset TESTS ARGS PARAMS TRACES APPEND QEMU_EXTRA ICOUNT MODULES LOAD CMD VM_CMD FILES DESTDIR PREFIX
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
copy=$tmp/devpool
kdir=$(kernel_kdir "$KERNELS")
export kdir tmp

# A line, then how it is run: "run", as it is; "as", as another one; "vm", by
# selftests/manual.sh, which has a device; "not", and why. "needs PROGRAM" in front
# skips it where there is no such program. An entry is one for all its places.
entries()
{
	cat <<'END'
make demo
	run
make
	as make KDIR="$kdir" && [ -e devpool.ko ]
sudo insmod devpool.ko
	not it would load a module into this machine's kernel; the VM loads it
cat /sys/kernel/security/lockdown
	not it says something of this machine
openssl req -new -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=devpool/" -outform DER -keyout mok.key -out mok.der
	needs openssl run
sudo mokutil --import mok.der
	not it would give a key to this machine's firmware
/usr/src/linux-headers-$(uname -r)/scripts/sign-file sha256 mok.key mok.der devpool.ko
	needs openssl as "$kdir/scripts/sign-file" sha256 mok.key mok.der devpool.ko && tail -c 28 devpool.ko | grep -q 'Module signature'
sudo make install
	as make install DESTDIR="$tmp/root" && [ -x "$tmp/root/usr/local/bin/devpoolctl" ]
sudo ldconfig
	not it would change this machine
sudo make dkms
	not it would change this machine; selftests/host/install.sh does so elsewhere
sudo modprobe devpool
	not it would load a module into this machine's kernel
devpoolctl list
	vm
devpoolctl pools
	vm
sudo rmmod devpool
	not nothing was loaded here; the VM unloads it
sudo make dkms-remove
	not it would change this machine; selftests/host/install.sh does so elsewhere
sudo make uninstall
	as make uninstall DESTDIR="$tmp/root" && [ -z "$(find "$tmp/root" -mindepth 1)" ]
make lib
	run
gcc -o build/first lib/examples/first.c -Iuapi -Ilib/include -Lbuild/lib -ldevpool -Wl,-rpath,'$ORIGIN/lib'
	run
make vm CMD=./first FILES=build/first
	as make vm CMD=./first FILES=build/first | grep -x '20971520 bytes went back'
make check
	not this is a part of it
make lint
	not it is run beside this
make docs
	not make lint does
devpool-record -o sort.csv --min 4096 -- sort -o sorted file
	as seq 200000 >file && PATH=$PWD/build/tools:$PATH && devpool-record -o sort.csv --min 4096 -- sort -o sorted file && [ -s sort.csv ]
devpool-replay --check --scale 1/16 sort.csv
	vm
devpool-replay --streams --delay 1000 sort.csv
	vm
devpoolctl pools --json devpool0 | jq -r 'max_by(.resident) | .comm'
	vm
devpoolctl trim 64M
	vm
END
}

# Lines that a reader is shown, each once. Pages for C programs have none.
shown()
{
	local page

	{
		sed -n '/^```sh$/,/^```$/p' "$TOP/README.md" | grep -v '^```'
		for page in "$TOP"/Documentation/man/man[18]/*.[18]; do
			sed -n '/^\.SH EXAMPLES/,$p' "$page" | sed -n '/^\.EX/,/^\.EE/p'
		done | grep -v '^\.E' | sed -e 's/\\-/-/g' -e "s/\\\\(aq/'/g" -e 's/\\e/\\/g'
	} | awk '!seen[$0]++'
}

# The files of the tree, with what is not committed yet
files()
{
	cd "$TOP" || return
	if [ -e .git ] && command -v git >/dev/null; then
		git -c safe.directory="$TOP" ls-files --cached --others --exclude-standard
	else
		find . -path ./build -prune -o -type f -print
	fi | while IFS= read -r f; do
		[ ! -f "$f" ] || echo "$f"
	done
}

number=0
failed=0

# result NAME COMMAND...: one line of TAP
result()
{
	local name=$1 verdict=ok

	shift
	if ! "$@" >"$tmp/out" 2>&1 </dev/null; then
		verdict="not ok"
		failed=1
		tail -n 50 "$tmp/out" | sed 's/^/# /'
	fi
	number=$((number + 1))
	echo "$verdict $number - $name"
}

# Without what the caller's make passes down by itself
run()
{
	(cd "$copy" && env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL \
		bash -o pipefail -c "$1")
}

run_in_vm()
{
	grep -qxF -- "$1" "$TOP/selftests/manual.sh"
}

make_copy()
{
	mkdir "$copy" && files | tar -C "$TOP" -c -T - | tar -C "$copy" -x && [ -e "$copy/Makefile" ]
}

declare -A how
while IFS= read -r line; do
	if [[ $line = $'\t'* ]]; then
		how[$entry]=${line#$'\t'}
	else
		entry=$line
	fi
done < <(entries)
mapfile -t lines < <(shown)

unknown()
{
	local l bad=0

	for l in "${lines[@]}"; do
		[ -n "${how[$l]:-}" ] || { echo "how is this run: $l"; bad=1; }
	done
	[ ${#lines[@]} -gt 10 ] && [ $bad = 0 ]
}

# stale: entries, or lines of selftests/manual.sh, that nobody shows any more
stale()
{
	! comm -13 <(printf '%s\n' "${lines[@]}" | sort) <({
		printf '%s\n' "${!how[@]}"
		awk "/<<'END'/ { on = 1; next } /^END\$/ { exit } on" "$TOP/selftests/manual.sh"
	} | sort -u) | grep .
}

echo "TAP version 13"
result "each line that is shown is named here" unknown
result "no line is named that is not shown" stale
result "the tree is copied" make_copy
for line in "${lines[@]}"; do
	entry=${how[$line]:-}
	if [[ $entry = needs\ * ]]; then
		read -r _ program entry <<<"$entry"
		if ! command -v "$program" >/dev/null; then
			number=$((number + 1))
			echo "ok $number - $line # SKIP there is no $program"
			continue
		fi
	fi
	case $entry in
	run)	result "$line" run "$line" ;;
	as\ *)	result "$line" run "${entry#as }" ;;
	vm)	result "$line (in the VM)" run_in_vm "$line" ;;
	not\ *)	echo "# not run: $line: ${entry#not }" ;;
	esac
done
echo "1..$number"
[ $failed = 0 ]
