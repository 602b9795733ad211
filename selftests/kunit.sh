#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The KUnit suites in devpool_kunit.ko, which run when it is loaded: their KTAP,
# made flat, a result for each case. A suite without a plan, or with one that is
# not fulfilled, fails.
#
#	DEVPOOL_KUNIT_KO	the module
#	DEVPOOL_KUNIT_PARAMS	its parameters, e.g. seed=1
#	KUNIT_RESULTS		where the kernel puts its KTAP

results=${KUNIT_RESULTS:-/sys/kernel/debug/kunit}

if [ -z "$DEVPOOL_KUNIT_KO" ]; then
	echo "1..0 # SKIP DEVPOOL_KUNIT_KO is not set"
	exit 4
fi
before=$(cd "$results" && echo *)
# Parameters are words.
# shellcheck disable=SC2086
if ! insmod "$DEVPOOL_KUNIT_KO" $DEVPOOL_KUNIT_PARAMS; then
	echo "Bail out! $DEVPOOL_KUNIT_KO did not load"
	exit 1
fi
for suite in "$results"/*; do
	case " $before " in
	*" ${suite##*/} "*) ;;
	*) cat "$suite/results" ;;
	esac
done | awk '
	function result(good, name) {
		total++
		print (good ? "ok " : "not ok ") total " " name
		if (!good)
			failed = wrong = 1
	}

	# A suite has four spaces in front of its lines, a case with parameters
	# twice as many.
	function depth() {
		match($0, /^ */)
		return RLENGTH / 4
	}

	function finish() {
		if (suite != "" && plan < 0)
			result(0, suite ": no plan")
		else if (suite != "" && plan != cases)
			result(0, suite ": a plan of " plan ", but " cases " results")
		suite = ""
	}

	depth() == 0 && /^KTAP version/ {
		finish()
		outer = 0
	}

	depth() == 0 && /^1\.\./ {
		outer = substr($1, 4)
	}

	depth() == 1 && /^ *# Subtest: / {
		suite = $3
		suites++
		plan = -1
		cases = wrong = 0
	}

	depth() == 1 && /^ *1\.\./ {
		plan = substr($1, 4)
	}

	depth() == 1 && /^ *(not )?ok / {
		good = $1 == "ok"
		line = $0
		sub(/^ *(not )?ok [0-9]+ */, "", line)
		cases++
		result(good, suite "." line)
	}

	# The whole suite: its setting up may fail though no case does.
	depth() == 0 && /^(not )?ok / {
		name = suite
		finish()
		if ($1 != "ok" && !wrong)
			result(0, name ": the suite failed")
		outer--
	}

	!/^ *(KTAP|1\.\.|(not )?ok )/ {
		sub(/^ *#? */, "# ")
		print
	}

	END {
		finish()
		if (!suites)
			result(0, "no suite")
		if (outer)
			result(0, "a suite that did not end")
		print "1.." total
		exit failed
	}'
status=$?
rmmod "$(basename "$DEVPOOL_KUNIT_KO" .ko)" || status=1
exit $status
