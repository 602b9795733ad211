#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make lint: what can be said about the source without running it. A line for
# each check, details of those that fail.
#
#	lint.sh [CHECK...]	all checks, or these
#
# KERNELS	the series to build for (default: 6.1 6.12)
# SETUP=no	installs nothing and lists what is missing
#
# Findings that are not to count are in scripts/lint-ignore, each with its
# reason. Exit status: 0; 1 for a finding; 4 for a failed set-up.

set -u -o pipefail
. "$(dirname "$0")/lib.sh"

export KERNELS=${KERNELS:-6.1 6.12}
read -ra CHECKS <<<"text spdx shellcheck codespell checkpatch kernel-doc comments header commands interfaces readme man docs programs $KERNELS"
IGNORES=$TOP/scripts/lint-ignore
OUT=$TOP/build/lint
MAX_BYTES=500000
# What a check says at most. All of it is in build/lint.
MAX_LINES=40

# All files that belong to the tree, by name.
list_files()
{
	local f

	if [ -e "$TOP/.git" ] && command -v git >/dev/null; then
		git -c safe.directory="$TOP" ls-files --cached --others --exclude-standard
	else
		find . -name .git -prune -o -path ./build -prune -o -type f \
			! -name '*.o' ! -name '*.a' ! -name '*.so*' ! -name '*.ko' \
			! -name '*.mod*' ! -name '.*.cmd' ! -name '*ymvers' \
			! -name modules.order -printf '%P\n'
	fi | sort | while IFS= read -r f; do
		[ ! -f "$f" ] || echo "$f"
	done
}

# files PATTERN: those that match the regular expression
files()
{
	grep -E -- "$1" "$OUT/files"
}

shell_files()
{
	files '^[^.]*$|\.(sh|bash)$|^\.ci/' | xargs perl -ne '
	print "$ARGV\n" if $ARGV =~ /\.(?:sh|bash)$/ || m{^#!.*[/ ](?:ba|da)?sh\b};
	close ARGV'
}

# The patterns of one check.
ignores()
{
	sed -n "s/^$1 //p" "$IGNORES"
}

# The ignore file itself: a line with the check and the pattern, then the
# reason, indented.
bad_ignores()
{
	awk -v checks=" ${CHECKS[*]} " '
	function done() {
		if (head != "")
			print "scripts/lint-ignore:" line ": no reason is given: " head
		head = ""
	}
	/^#/ || /^$/	{ done(); next }
	/^[ \t]/	{ head = ""; next }
	{
		done()
		head = $0
		line = NR
		if (NF < 2 || $1 !~ /^[0-9.]+$/ && !index(checks, " " $1 " "))
			print "scripts/lint-ignore:" NR ": no such check: " $1
	}
	END	{ done() }' "$IGNORES"
}

# remains CHECK: drops from the findings on stdin those that are to be ignored,
# and reports the patterns that no finding needs any more.
remains()
{
	local rest next pattern

	rest=$(cat)
	while IFS= read -r pattern; do
		next=$(grep -vE -- "$pattern" <<<"$rest")
		[ "$next" != "$rest" ] ||
			echo "scripts/lint-ignore: nothing needs this any more: $1 $pattern"
		rest=$next
	done < <(ignores "$1")
	[ -z "$rest" ] || echo "$rest"
}

# Without what the caller's make passes down by itself.
plain_make()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL \
		make -s --no-print-directory -j"$(nproc)" "$@"
}

# Each check prints its findings, one a line, and nothing else.

# The brackets keep these patterns from finding themselves.
check_text()
{
	# What stands in a patch is another file's.
	files '' | grep -v -e '^LICENSES/' -e '\.patch$' | MAX_BYTES=$MAX_BYTES xargs perl -ne '
	BEGIN {
		$machine = qr{(?<![A-Za-z0-9_.])/(?:home/[a-z]|wor[k]/|tmp/[w]/|root/[.a-z]|Users/)};
		$host = qr{\b(?:pypi|crates|npmjs|pythonhosted|ghcr|docker|quay|jfrog|artifactory)\.(?:or[g]|i[o]|co[m])|
			\b[a-z]+\.debian\.or[g]|\b(?:deb|http|https|git|ftp)://[a-z0-9]}ix;
	}
	sub found { chomp; print "$ARGV:$.: $_[0]\n" }
	found("is not text") if /\0/;
	found("white space at the end") if /[ \t\r]+$/;
	found("space before a tab") if / \t/;
	found("a path of some machine: $_") if $_ =~ $machine;
	found("a host: $_") if $_ =~ $host;
	if (eof) {
		found("empty line at the end") if /^$/;
		found("no newline at the end") if !/\n\z/;
		found((-s $ARGV) . " bytes, of $ENV{MAX_BYTES} at most") if -s $ARGV > $ENV{MAX_BYTES};
		close ARGV;
	}'
}

check_spdx()
{
	local says

	# The second line where the first one names an interpreter.
	files '' | grep -v '^LICENSES/' | xargs perl -ne '
	next if $. == 1 && /^#!/;
	($says) = m{SPDX-License-Identifier: (.*?) *(?:\*/|-->)?$};
	$want = $ARGV =~ m{^uapi/} ? "GPL-2.0 WITH Linux-syscall-note" :
		$ARGV =~ m{^(?:lib|tools|Documentation/examples)/} ?
			"LGPL-2.1-or-later" : "GPL-2.0-only";
	$says //= "no licence";
	print "$ARGV: the first line names $says, not $want\n" if $says ne $want;
	close ARGV'
	for says in GPL-2.0 GPL-2.0-only Linux-syscall-note LGPL-2.1-or-later; do
		grep -qE "^(Valid-License-Identifier|SPDX-Exception-Identifier): $says\$" LICENSES/*/* ||
			echo "LICENSES: has no text of $says"
	done
}

check_shellcheck()
{
	shell_files | xargs shellcheck -x -P SCRIPTDIR -f gcc
}

check_codespell()
{
	files '' | grep -v -e '^LICENSES/' -e '^scripts/lint-ignore$' | xargs codespell
}

# checkpatch.pl leaves a file where it runs, and asks git for names that are
# the kernel's: so it gets a folder of its own and no git.
check_checkpatch()
{
	local d dir=$OUT/checkpatch

	rm -rf "$dir"
	mkdir -p "$dir/include"
	for d in kmod uapi lib tools selftests; do
		ln -s "$TOP/$d" "$dir/"
	done
	files '^(kmod|uapi|lib|tools|selftests)/.*\.[ch]$' | (cd "$dir" && GIT_DIR=/none \
		xargs perl "$(source_dir)/scripts/checkpatch.pl" --no-tree --root=. --strict \
			--terse --show-types --no-summary --color=never -f)
}

check_kernel_doc()
{
	files '^((kmod|uapi)/.*\.[ch]|lib/include/.*\.h)$' |
		xargs perl "$(source_dir)/scripts/kernel-doc" -none -Wall 2>&1
}

# Functions of the module that other files can see say who may call them when,
# and what they return. A KUnit suite has some of the module's by the same names,
# which are described where they are the module's.
check_comments()
{
	files '^kmod/.*\.c$' | xargs awk '
	FNR == 1	{ doc = ""; sig = ""; open = 0 }
	/^\/\*\*/	{ open = 1; doc = "" }
	open		{ doc = doc $0 "\n" }
	/^ ?\*\// || /\*\/$/ { if (open) { open = 0; sig = ""; next } }
	open		{ next }
	/^[A-Za-z_]/	{ if (sig == "" || sig ~ /[;}]$/) { sig = ""; line = FNR } sig = sig $0 }
	/^[ \t]/	{ if (sig != "") sig = sig $0 }
	/^$/ || /;$/	{ sig = ""; if (!/^$/ || doc == "") doc = ""; next }
	/^[{]$/ {
		if (FILENAME ~ /^kmod\/tests\// && sig !~ /devpool_kunit_/)
			sig = ""
		if (sig ~ /\(/ && sig !~ /^(static|struct [a-z_]+ \{|enum|union)/ &&
		    sig !~ /(__init|__exit)/ && sig !~ /=/) {
			where = FILENAME ":" line ": " sig ": "
			if (doc == "")
				print where "has no kernel-doc"
			else {
				if (doc !~ /Context:/)
					print where "kernel-doc without Context:"
				if (sig !~ /^void [a-z]/ && doc !~ /Return:/)
					print where "kernel-doc without Return:"
			}
		}
		sig = ""
		doc = ""
	}
	/^}/	{ sig = ""; doc = "" }'
}

# The interface compiles alone, in both languages and word sizes, and no struct
# has a hole. -m32 finds no asm/ of its own on a machine for amd64.
check_header()
{
	local f lang
	local asm=/usr/include/x86_64-linux-gnu

	while IFS= read -r f; do
		for lang in c c++; do
			[ $lang = c ] || g++ --version >/dev/null 2>&1 || continue
			gcc -x $lang -Iuapi -pedantic -Wno-long-long -Wall -Wextra -Wpadded \
				-fsyntax-only - <<<"#include \"${f#uapi/}\"" 2>&1
			gcc -x $lang -m32 -isystem $asm -Iuapi -pedantic -Wno-long-long -Wall -Wextra \
				-Wpadded -fsyntax-only - <<<"#include \"${f#uapi/}\"" 2>&1
		done
		grep -nE '^#include' "$f" | grep -vE '<linux/(types|ioctl)\.h>$' |
			sed "s|^|$f:|; s|\$|: only <linux/types.h> and <linux/ioctl.h>|"
	done < <(files '^uapi/.*\.h$') | grep -E '(warning|error): |: only'
}

# Each command is described and tested, and nothing else is described.
check_commands()
{
	local have name

	have=$(sed -n 's/^\tDEVPOOL_CMD_\([A-Z_]*\) = .*/\1/p' uapi/linux/devpool.h)
	[ -n "$have" ] || echo "uapi/linux/devpool.h: names no command"
	for name in $have; do
		grep -qE "^#define DEVPOOL_IOC_$name _IO\(DEVPOOL_TYPE, DEVPOOL_CMD_$name\)\$" \
			uapi/linux/devpool.h || echo "uapi/linux/devpool.h: has no DEVPOOL_IOC_$name"
		grep -qE "^DEVPOOL_CMD_$name\$" Documentation/userspace-api/devpool.rst ||
			echo "Documentation/userspace-api: no section has the title DEVPOOL_CMD_$name"
		grep -qE "^\.BR? .*DEVPOOL_IOC_$name\>" Documentation/man/man4/devpool.4 ||
			echo "Documentation/man: devpool.4 says nothing of DEVPOOL_IOC_$name"
		grep -qE "^	\.nr = DEVPOOL_CMD_$name,\$" selftests/negative.c ||
			echo "selftests/negative.c: its table has no DEVPOOL_CMD_$name"
		grep -lE "DEVPOOL_(CMD|IOC)_$name\>|\<test_(err_)?${name,,}[a-z_]*\(" selftests/*.c |
			grep -qv '/negative\.c$' ||
			echo "selftests: nothing but negative.c uses DEVPOOL_CMD_$name"
	done
	grep -rnoE 'DEVPOOL_(CMD|IOC)_[A-Z_]*[A-Z]\>' Documentation README.md CHANGES |
		while IFS= read -r name; do
			grep -qxF "${name##*_CMD_}" <<<"$have" || grep -qxF "${name##*_IOC_}" <<<"$have" ||
				echo "$name: there is no such command"
		done
}

# described WHAT HAVE WHERE SAID: two lists, sorted, that have to be the same
described()
{
	[ -n "$2" ] || echo "kmod: no $1 is found"
	comm -23 <(echo "$2") <(echo "$4") | sed "/./s|^|$3: says nothing of the $1 |"
	comm -13 <(echo "$2") <(echo "$4") | sed "/./s|^|$3: there is no $1 |"
}

# section FILE TITLE LINE: what is below that title, underlined with that character
section()
{
	awk -v title="$2" -v line="$3" '
	$0 ~ "^" line line line "+$" { on = last == title }
	on { print }
	{ last = $0 }' "$1"
}

# So is what the module shows otherwise: what there is, and no more.
check_interfaces()
{
	local doc=Documentation/userspace-api/devpool.rst abi=Documentation/ABI/testing have f

	have=$(sed -nE 's/^static (DEVICE|CLASS)_ATTR_[A-Z]+\(([a-z_]+)\);/\2/p' kmod/*.c | sort)
	described "sysfs file" "$have" $abi/sysfs-class-devpool \
		"$(sed -nE 's|^What:.*/sys/class/devpool/(devpool<N>/)?||p' $abi/sysfs-class-devpool | sort)"
	described "sysfs file" "$have" $doc \
		"$(section $doc sysfs - | grep -oP '``\K[a-z_]+(?=``)' | sort -u)"
	described "sysfs file" "$have" Documentation/man/man4/devpool.4 \
		"$(sed -n '/^\.RS/,/^\.RE/p' Documentation/man/man4/devpool.4 | sed -n '/^\.TP/{n;p}' |
		   sed -e 's/^\.[A-Z]* //' -e 's/ ", " /\n/' | sort)"

	have=$(sed -n 's/.*debugfs_create_file("\([a-z_]*\)".*/\1/p' kmod/*.c | sort)
	described "debugfs file" "$have" $abi/debugfs-devpool \
		"$(sed -n 's|^What:.*/sys/kernel/debug/devpool/devpool<N>/||p' $abi/debugfs-devpool | sort)"

	have=$(sed -nE 's/^module_param(_named)?\(([a-z_]+),.*/\2/p' kmod/*.c | sort)
	described "module parameter" "$have" $doc \
		"$(section $doc "Module parameters" = | sed -n 's/^``\([a-z_]*\)=``.*/\1/p' | sort)"
	for f in $have; do
		grep -q "\`$f=" README.md || echo "README.md: says nothing of the module parameter $f"
	done

	have=$(grep -ohP '"\Kdevpool-[a-z-]+(?=:)' kmod/*.c | sort -u)
	described "fdinfo key" "$have" $doc \
		"$(section $doc fdinfo - | grep -oP '\bdevpool-[a-z-]+' | sort -u)"

	have=$(sed -nE 's/^(DEFINE_EVENT\([a-z_]+, |TRACE_EVENT\()(devpool_[a-z_]+),$/\2/p' kmod/trace.h | sort)
	described "trace event" "$have" $doc \
		"$(section $doc "Trace events" - | sed -n 's/^\(devpool_[a-z_]*\) .*/\1/p' | sort)"
}

# What README shows is what there is.
check_readme()
{
	local t

	diff <(sed -n '/^```c$/,/^```$/p' README.md | grep -v '^```') lib/examples/first.c |
		sed 's/^/README.md: differs from lib\/examples\/first.c: /'
	sed -n '/^```sh$/,/^```$/p' README.md | grep -oP '(^|[^-\w])make \K[a-z-]+(?=( |$))' |
		sort -u | while IFS= read -r t; do
		grep -q "^$t:\|^\.PHONY:.* $t\b\|^exact := .*\b$t\b\|^	[a-z -]*\b$t\b" Makefile ||
			echo "README.md: there is no make $t"
	done
	grep -oP '\]\(\K[^)#:]+(?=\))' README.md | while IFS= read -r t; do
		[ -e "$t" ] || echo "README.md: there is no $t"
	done
}

# Pages of the manual, as two programs read them. A page that only names another
# one is fine if that is there.
check_man()
{
	local p to

	files '^Documentation/man/.*\.[0-9]$' | while IFS= read -r p; do
		to=$(sed -n 's/^\.so //p' "$p")
		if [ -n "$to" ]; then
			[ -f "Documentation/man/$to" ] || echo "$p: there is no $to"
			continue
		fi
		mandoc -T lint -W style "$p"
		groff -man -Tutf8 -ww -z "$p" 2>&1
	done
}

# What Sphinx and kernel-doc say of the pages
check_docs()
{
	"$TOP/scripts/docs.sh" >/dev/null || echo "Documentation: there were warnings"
}

# The module with W=1 and sparse, in a copy, from nothing: make says no warning
# twice.
check_module()
{
	local dir=$OUT/module-$1 d

	rm -rf "$dir"
	mkdir -p "$dir"
	for d in kmod uapi; do
		copy_changed "$TOP/$d" "$dir/$d"
	done
	cp Kbuild VERSION "$dir/"
	plain_make -C "$(kernel_kdir "$1")" M="$dir" W=1 C=2 modules 2>&1 |
		sed "s|$dir/||g"
	[ -e "$dir/devpool.ko" ] || echo "devpool.ko: was not built for $1"
}

# Library, tools and tests without a warning, whatever is optimised away.
check_programs()
{
	local d level dir=$OUT/programs

	for level in O0 O2; do
		for d in lib tools selftests; do
			plain_make -C $d OUT="$dir/$level/$d" LIBOUT="$dir/$level/lib" \
				CFLAGS="-$level -g -Werror" 2>&1 | sed "s/^/-$level: /"
		done
	done
}

versions()
{
	echo "gcc $(gcc -dumpfullversion), $(shellcheck --version | sed -n 's/^version: /shellcheck /p')," \
	     "sparse $(sparse --version | sed 's/ .*//'), codespell $(codespell --version)," \
	     "checkpatch $(perl "$(source_dir)/scripts/checkpatch.pl" --version | sed -n 's/.*Version: //p')" \
	     "and kernel-doc of $(cat "$(source_dir)/release")"
	echo "kernels $(for k in $KERNELS; do kernel_release "$k"; done | tr '\n' ' ')"
}

findings()
{
	case $1 in
	text)		check_text ;;
	spdx)		check_spdx ;;
	shellcheck)	check_shellcheck ;;
	codespell)	check_codespell ;;
	checkpatch)	check_checkpatch ;;
	kernel-doc)	check_kernel_doc ;;
	comments)	check_comments ;;
	header)		check_header ;;
	commands)	check_commands ;;
	interfaces)	check_interfaces ;;
	readme)		check_readme ;;
	man)		check_man ;;
	docs)		check_docs ;;
	programs)	check_programs ;;
	*)		check_module "$1" ;;
	esac
}

# report CHECK: what it found
report()
{
	local name=$1 log=$OUT/$1.log

	[[ ! $1 =~ ^[0-9] ]] || name="module for $1"
	if [ ! -s "$log" ]; then
		echo "ok    $name"
		return
	fi
	echo "FAIL  $name"
	head -n $MAX_LINES "$log" | sed 's/^/      /'
	[ "$(wc -l <"$log")" -le $MAX_LINES ] ||
		echo "      and $(($(wc -l <"$log") - MAX_LINES)) more: ${log#"$TOP/"}"
	return 1
}

cd "$TOP" || exit
"$TOP/scripts/setup.sh" || exit "$EXIT_SETUP"
for c; do
	[[ " ${CHECKS[*]} " = *" $c "* ]] || die "no such check: $c; there are: ${CHECKS[*]}"
done
mkdir -p "$OUT"
# Two runs in one tree are to wait for each other.
exec 8>"$OUT/.lock"
flock 8
list_files >"$OUT/files"
versions
status=0
bad=$(bad_ignores)
if [ -n "$bad" ]; then
	echo "$bad"
	status=1
fi
[ $# -gt 0 ] || set -- "${CHECKS[@]}"
# As many at a time as there are processors; reported in order.
declare -A pid
for c; do
	[ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n
	{ findings "$c" 2>&1 | remains "$c" >"$OUT/$c.log"; } &
	pid[$c]=$!
done
for c; do
	wait "${pid[$c]}"
	report "$c" || status=1
done
exit $status
