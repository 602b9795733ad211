#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# TAP test of devpool-record on this machine: no device, no module.
# BUILD names the build folder; needs a C compiler (CC) and the usual tools.
#
# The programs below allocate in sizes that nothing else in a process asks for,
# so a row is recognised by its size.
set -u

here=$(dirname "$(realpath "$0")")
BUILD=$(realpath "${BUILD:-$here/../../build}")
CC=${CC:-cc}
record=$BUILD/tools/devpool-record
tmp=$(mktemp -d) || exit 1
trap 'umount "$tmp/full" 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
cd "$tmp" || exit 1

echo "TAP version 13"
if ! [ -x "$record" ]; then
	echo "Bail out! $record is not built"
	exit 1
fi

cat >family.c <<'EOF'
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

int main(void)
{
	void *p[9], *held;
	volatile size_t huge = -1ul / 2;
	int i, bad = 0;

	p[0] = malloc(100001);
	p[1] = calloc(3, 100002);
	p[2] = realloc(NULL, 100003);
	p[3] = reallocarray(NULL, 4, 100004);
	bad |= posix_memalign(&p[4], 64, 100005);
	p[5] = aligned_alloc(256, 100096);
	p[6] = memalign(4096, 100007);
	p[7] = valloc(100008);
	p[8] = pvalloc(100009);
	bad |= (unsigned long)p[4] % 64 || (unsigned long)p[5] % 256 || (unsigned long)p[6] % 4096;
	for (i = 0; i < 300006; i++)
		bad |= ((char *)p[1])[i];
	for (i = 0; i < 9; i++) {
		bad |= !p[i];
		errno = 77;
		free(p[i]);
		bad |= errno != 77;
	}
	free(NULL);
	errno = 0;
	bad |= !!reallocarray(NULL, huge, 3) || errno != ENOMEM;
	errno = 0;
	bad |= !!calloc(huge, 3) || errno != ENOMEM;
	held = malloc(100010);
	bad |= !held || !!realloc(held, huge - 4096);
	return bad;
}
EOF

cat >realloc.c <<'EOF'
#include <stdlib.h>
#include <string.h>

int main(void)
{
	char *p, *q, *wall;

	p = malloc(200001);
	wall = malloc(300000);
	memset(p, 7, 200001);
	p = realloc(p, 200001);
	p = realloc(p, 200002);
	p = realloc(p, 9000003);
	if (!wall || !p || p[200000] != 7)
		return 1;
	q = realloc(p, 200004);
	q = realloc(q, 0);
	p = malloc(40);
	p = realloc(p, 200005);
	p = realloc(p, 41);
	free(p);
	return !!q;
}
EOF

# Blocks change hands between threads through the slots, so most are freed, and
# many resized, by a thread that did not take them. 0 of them is left at the end.
# An argument adds a child per round, forked while the others allocate.
cat >threads.c <<'EOF'
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *slots[64];

static void *work(void *arg)
{
	unsigned int i, x = (uintptr_t)arg * 2654435761u + 1;
	void *p, *q;

	for (i = 0; i < 10000; i++) {
		x = x * 1103515245u + 12345;
		p = malloc(50000 + (x >> 16) % 7);
		p = __atomic_exchange_n(&slots[(x >> 8) % 64], p, __ATOMIC_ACQ_REL);
		if (p && i % 3 == 0) {
			q = realloc(p, 60000 + (x >> 20) % 30000);
			if (!q)
				abort();
			p = q;
		}
		free(p);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[4];
	int i, status;

	(void)argv;
	for (i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, work, (void *)(uintptr_t)i);
	for (i = 0; argc > 1 && i < 50; i++) {
		pid_t pid = fork();

		if (!pid) {
			free(malloc(700000));
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			abort();
	}
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < 64; i++)
		free(slots[i]);
	return 0;
}
EOF

# Sizes: 8001 the parent before, 8002 the children, 8003 the parent after. The
# argument is how the child is made: by a second thread, which is the child's first.
cat >child.c <<'EOF'
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char **args;

static void *work(void *inherited)
{
	char *const again[] = { args[0], (char *)"leaf", NULL };
	const char *how = args[1];
	int i, status;
	pid_t pid;

	free(malloc(8004));
	if (!strcmp(how, "spawn")) {
		if (posix_spawn(&pid, args[0], NULL, NULL, again, environ))
			abort();
	} else if (!strcmp(how, "vfork")) {
		pid = vfork();
		if (!pid) {
			execv(args[0], again);
			_exit(1);
		}
	} else {
		pid = strcmp(how, "raw") ? fork() : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (!pid) {
			free(inherited);
			for (i = 0; strcmp(how, "idle") && i < 20000; i++)
				free(malloc(8002));
			_exit(0);
		}
	}
	if (waitpid(pid, &status, 0) != pid || status)
		abort();
	for (i = 0; i < 5; i++)
		free(malloc(8003));
	free(inherited);
	if (!strcmp(how, "exec"))
		execv(args[0], again);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	(void)argc;
	args = argv;
	if (!strcmp(argv[1], "leaf")) {
		free(malloc(8002));
		return 0;
	}
	if (pthread_create(&thread, NULL, work, malloc(8001)))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
EOF

# Ends as told, after rows for more than one window of the log.
cat >end.c <<'EOF'
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int i;

	(void)argc;
	if (!strcmp(argv[1], "close"))
		for (i = 3; i < 1024; i++)
			close(i);
	if (!strcmp(argv[1], "chdir") && chdir("/"))
		return 1;
	for (i = 0; i < 15000; i++) {
		void *p = malloc(7001);

		if (!p)
			return 1;
		free(p);
	}
	if (!malloc(7002))
		return 1;
	if (!strcmp(argv[1], "kill"))
		raise(SIGKILL);
	if (!strcmp(argv[1], "segv"))
		raise(SIGSEGV);
	if (!strcmp(argv[1], "abort"))
		abort();
	if (!strcmp(argv[1], "_exit"))
		_exit(7);
	exit(strcmp(argv[1], "exit") ? 0 : 8);
}
EOF

# Allocates before any constructor of the recorder: as a preloaded object after it.
cat >early.c <<'EOF'
#include <stdlib.h>

static void *kept;

__attribute__((constructor)) static void early(void)
{
	free(malloc(6001));
	kept = malloc(6002);
}

__attribute__((destructor)) static void late(void)
{
	free(kept);
	free(malloc(6003));
}
EOF
echo 'int main(void) { return 3; }' >static.c

flags="-O0 -Wall -fno-builtin"
# shellcheck disable=SC2086
for c in family realloc threads child end; do
	$CC $flags -o $c $c.c -lpthread || { echo "Bail out! $c.c"; exit 1; }
done
# shellcheck disable=SC2086
$CC $flags -shared -fPIC -o early.so early.c || { echo "Bail out! early.c"; exit 1; }
$CC -static -o static static.c || { echo "Bail out! static.c"; exit 1; }

planned=30
number=0
failed=0
why=""
echo "1..$planned"

# How many files there are of these names; a pattern that fits none is itself.
files()
{
	n=0
	for f in "$@"; do
		[ ! -e "$f" ] || n=$((n + 1))
	done
	echo $n
}

# Ends one test: it passed unless something wrote to $why.
result()
{
	number=$((number + 1))
	if [ -z "$why" ]; then
		echo "ok $number - $1"
	else
		failed=$((failed + 1))
		echo "not ok $number - $1"
		printf '%s\n' "$why" | sed 's/^/# /'
	fi
	why=""
	rm -f out* err
}

skip()
{
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
	why=""
	rm -f out* err
}

fail()
{
	why="${why:+$why
}$*"
}

# is WHAT GOT WANTED
is()
{
	[ "$2" = "$3" ] || fail "$1: got '$2', wanted '$3'"
}

# Runs the recorder with an outer limit and checks its exit status.
run()
{
	wanted=$1
	shift
	timeout 60 "$record" "$@" >stdout 2>err
	is "exit status of: $*" $? "$wanted"
}

# The rules of the format, in every trace that came out.
rules()
{
	for csv in out*; do
		[ -f "$csv" ] || { fail "no trace"; continue; }
		bad=$(awk -F, '
			/^# streams:/ { split($0, w, " "); streams = w[3] }
			/^# rows:/ { split($0, w, " "); rows = w[3] }
			/^# frees not seen/ { print "unseen frees"; exit }
			/^#/ { if (n) { print "comment after rows"; exit } next }
			{ n++ }
			!/^[af],[0-9]+,[1-9][0-9]*,[0-9]+$/ { print "no row: " $0; exit }
			$1 == "a" && ($2 in seen) { print "id again: " $0; exit }
			$1 == "a" && $4 > top { print "stream skipped: " $0; exit }
			$1 == "a" { seen[$2] = 1; live[$2] = $3 "," $4; if ($4 == top) top++; next }
			live[$2] != $3 "," $4 { print "free without its alloc: " $0; exit }
			{ delete live[$2] }
			END { if (n + 0 != rows || top + 0 != streams) print "header: " rows " rows " streams " streams, found " n + 0 " and " top + 0 }
		' "$csv")
		[ -z "$bad" ] || fail "$csv: $bad"
	done
}

# count FILE OP SIZE: how many such rows; SIZE is a pattern.
count()
{
	grep -c "^$2,[0-9]*,$3,[0-9]*\$" "$1"
}

# both FILE SIZE N: N blocks of SIZE taken and given back.
both()
{
	is "$1: allocs of $2" "$(count "$1" a "$2")" "$3"
	is "$1: frees of $2" "$(count "$1" f "$2")" "$3"
}

# The one further trace that matches the pattern, as $other.
only()
{
	# shellcheck disable=SC2086
	set -- $1
	is "traces like $1" "$#" 1
	other=$1
	[ -f "$other" ] || fail "no further trace $1"
}

run 0 --help
grep -q '^Usage: devpool-record -o OUT' stdout || fail "no usage text"
is "standard error" "$(cat err)" ""
result "help"

run 2
run 2 -o out.csv
run 2 -- true
run 2 -o out.csv --nonsense -- true
run 2 -o out.csv --min 0 -- true
run 2 -o out.csv --min 4k -- true
run 2 -o out.csv --min -1 -- true
run 2 -o . -- true
mkfifo pipe
run 2 -o pipe -- true
run 2 -o nowhere/out.csv -- true
[ -p pipe ] || fail "what is no regular file was replaced"
rm pipe
is "files left" "$(files .devpool* out*)" 0
result "wrong usage exits 2 and leaves nothing"

run 0 -o out.csv -- ./family
rules
for size in 100001 300006 100003 400016 100005 100096 100007 100008 100009; do
	both out.csv $size 1
done
result "every function of the family is recorded, and keeps its contract"

run 0 -o out.csv -- ./family
is "alloc of the block whose resize failed" "$(count out.csv a 100010)" 1
is "free of the block whose resize failed" "$(count out.csv f 100010)" 0
is "rows of a size that cannot be had" "$(count out.csv '[af]' '[0-9]\{15,\}')" 0
result "a request that failed leaves no row"

run 0 -o out.csv -- ./realloc
rules
for size in 200001 200002 9000003 200004 200005 41; do
	both out.csv $size 1
done
is "order" "$(grep -o '^[af],[0-9]*,\(20000[1-5]\|9000003\|4[01]\),' out.csv | cut -d, -f1,3 | tr '\n' ' ')" \
	"a,200001 f,200001 a,200002 f,200002 a,9000003 f,9000003 a,200004 f,200004 a,40 f,40 a,200005 f,200005 a,41 f,41 "
result "a resize is a free and an alloc, the same size is nothing, size 0 a free"

run 0 -o out.csv --min 1000 -- ./realloc
rules
both out.csv 200005 1
is "rows under the limit" "$(count out.csv '[af]' '[0-9]\{1,3\}')" 0
is "a block of another size" "$(count out.csv a 300000)" 1
run 0 -o out.csv --min 200002 -- ./realloc
is "200001 is under 200002" "$(count out.csv '[af]' 200001)" 0
both out.csv 200002 1
result "--min leaves out smaller requests and their frees, and crosses it by realloc"

run 0 -o out.csv --min 40000 -- ./threads
rules
allocs=$(count out.csv a '[5-9][0-9]*')
is "allocs" "$((allocs > 50000))" 1
is "frees" "$(count out.csv f '[5-9][0-9]*')" "$allocs"
is "streams" "$(grep -o '^# streams: [0-9]*' out.csv)" "# streams: 4"
result "threads are streams, and blocks that change hands keep their order"

run 0 -o out.csv --min 40000 -- ./threads fork
rules
for csv in out.csv.*; do
	both "$csv" 700000 1
	is "$csv: other rows" "$(grep -c '^[af]' "$csv")" 2
done
is "children" "$(files out.csv.*)" 50
is "streams" "$(grep -o '^# streams: [0-9]*' out.csv)" "# streams: 4"
result "fork while other threads allocate: children record apart"

for how in fork raw; do
	run 0 -o out.csv -- ./child $how
	rules
	only 'out.csv.*'
	both out.csv 8001 1
	both out.csv 8003 5
	both out.csv 8002 0
	both "$other" 8002 20000
	both "$other" 800[13] 0
	is "streams of the child" "$(grep -o '^# streams: [0-9]*' "$other")" "# streams: 1"
	result "a child ($how) has a trace of its own, without what it inherited"
done

run 0 -o out.csv -- ./child idle
rules
both out.csv 8001 1
both out.csv 8003 5
is "traces" "$(ls out*)" out.csv
result "a child that allocates nothing has no trace"

for how in spawn vfork; do
	run 0 -o out.csv -- ./child $how
	rules
	only 'out.csv.*'
	both out.csv 8001 1
	both out.csv 8003 5
	both out.csv 8002 0
	both "$other" 8002 1
	grep -q '^# command: ./child leaf$' "$other" || fail "wrong command line"
	result "a program run by $how has a trace of its own"
done

run 0 -o out.csv -- ./child exec
rules
only 'out.csv.*.1'
both out.csv 8001 1
both "$other" 8002 1
grep -q '^# command: ./child exec$' out.csv || fail "wrong command line"
grep -q '^# command: ./child leaf$' "$other" || fail "wrong command line after exec"
result "exec: the first program has OUT, the next OUT.PID.1"

for how in kill:137 segv:139 abort:134 _exit:7 exit:8; do
	run "${how#*:}" -o out.csv -- ./end "${how%:*}"
	rules
	both out.csv 7001 15000
	is "last block" "$(count out.csv a 7002)" 1
	result "ended by ${how%:*}: status ${how#*:}, every row there"
done

for how in close chdir; do
	run 0 -o out.csv -- ./end $how
	rules
	both out.csv 7001 15000
	result "a program that does $how loses no row"
done

run 0 -o out.csv -- ./end close
is "descriptors at the start" "$(timeout 60 "$record" -o out.csv -- sh -c 'ls /proc/self/fd' 2>err | tr '\n' ' ')" \
	"$(sh -c 'ls /proc/self/fd' | tr '\n' ' ')"
result "no descriptor is left in the program"

run 125 -o out.csv -- sh -c 'ulimit -f 600; exec ./end exit'
only 'out.csv.*.1'
grep -q '^# incomplete: ' "$other" || fail "not said in the trace"
grep -q 'stopped early' err || fail "not said on standard error"
is "rows of a full window" "$(grep -c '^[af]' "$other")" 8192
run 125 -o out.csv -- sh -c 'ulimit -f 10; exec ./end exit'
grep -q 'could not begin its log' err || fail "a log that never began: not said"
result "a log that cannot grow stops the recording, not the program"

# Room for one window of the log, and then not for the trace.
mkdir full
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=320k tmpfs full 2>/dev/null; then
	run 125 -o full/out.csv -- ./end exit
	grep -q 'cannot write: No space' err || fail "not said: $(cat err)"
	is "files left" "$(ls -A full)" ""
	umount full
	result "a full disk: said, the program goes on, no half trace"
else
	skip "a full disk: said, the program goes on, no half trace" "needs root and mount"
fi

run 125 -o out.csv -- ./static
grep -q 'nothing was recorded' err || fail "not said"
is "traces" "$(files out*)" 0
result "a static program: said, and no trace"

if [ "$(id -u)" = 0 ] && install -m 4755 -o 65534 family setuid 2>/dev/null &&
	! findmnt -n -o OPTIONS -T . 2>/dev/null | grep -q nosuid; then
	run 125 -o out.csv -- ./setuid
	grep -q 'nothing was recorded' err || fail "not said"
	result "a setuid program: said, and no trace"
else
	skip "a setuid program: said, and no trace" "needs root and a file system with setuid"
fi

touch go
for _ in 1 2 3 4 5; do
	run 0 -o out.csv -- sh -c '(while [ -e go ]; do /bin/true; done) >/dev/null 2>&1 &'
	rules
	is "folders left" "$(files .devpool*)" 0
	rm -f out*
done
rm go
result "a process that outlives the command leaves nothing behind"

run 127 -o out.csv -- ./nothing-there
run 126 -o out.csv -- ./family.c
is "traces" "$(files out*)" 0
result "a command that is not there is 127, one that cannot run 126"

LD_PRELOAD=$tmp/early.so run 0 -o out.csv -- ./family
rules
both out.csv 6001 1
both out.csv 6002 1
both out.csv 6003 1
both out.csv 100001 1
result "allocations before and after main, and the user's own LD_PRELOAD"

echo old >out.csv
mkdir "out dir"
run 0 -o "out dir/a trace.csv" -- ./family 'two
lines'
run 0 -o out.csv -- ./end exec
is "old lines" "$(grep -c old out.csv)" 0
is "files in the folder" "$(ls -A "out dir")" "a trace.csv"
grep -q '^# command: ./family two?lines$' "out dir/a trace.csv" || fail "command line broken"
rm -r "out dir"
rules
result "OUT is replaced, its name may hold spaces, arguments newlines"

[ $number -eq $planned ] || echo "# planned $planned, ran $number"
[ $failed -eq 0 ] && [ $number -eq $planned ]
