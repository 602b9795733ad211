# SPDX-License-Identifier: GPL-2.0-only
#
# For people. What kbuild reads is in Kbuild.

# The build folder of the kernel to build the module for.
KDIR ?= /lib/modules/$(shell uname -r)/build

all: modules lib tools

# O, W, C, ARCH, CROSS_COMPILE and LLVM on the command line reach kbuild by
# themselves.
modules:
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

lib:
	$(MAKE) -C lib OUT=$(CURDIR)/build/lib

tools: lib
	$(MAKE) -C tools OUT=$(CURDIR)/build/tools LIBOUT=$(CURDIR)/build/lib

# The kernel's test harness comes out of the cache.
selftests: lib
	$(if $(KSFT_DIR),,@KERNELS= scripts/setup.sh)
	$(MAKE) -C selftests OUT=$(CURDIR)/build/selftests LIBOUT=$(CURDIR)/build/lib

clean:
	rm -rf build
	$(if $(wildcard $(KDIR)),$(MAKE) -C $(KDIR) M=$(CURDIR) clean)

help:
	@sed -e '1d' -e 's/^# \{0,1\}//' scripts/help

# The scripts read their variables (KERNELS, FILES, ...) from the environment,
# where make puts what stands on its command line. A command may have a dollar
# sign, which is the shell's in the VM and not make's: it goes as it is written.
unexport CMD
export VM_CMD := $(value CMD)
series = $(lastword $(or $(KERNELS),6.12))

run-setup: script = scripts/setup.sh --update
run-vm:    script = KERNELS=$(series) scripts/setup.sh && \
		    scripts/build.sh $(series) && KERNELS=$(series) selftests/vm/run.sh
run-demo:  script = selftests/vm/demo.sh
run-bench: script = selftests/vm/bench.sh
run-check: script = selftests/vm/check.sh
run-lint:  script = scripts/lint.sh

# make answers 2 to whatever fails; these end with the status of what they ran,
# by a function that make has to be given first. Without a compiler it is 2.
exact := setup vm demo bench check lint
status := build/.status.$(shell echo $$PPID)

$(exact:%=run-%): run-%:
	@mkdir -p build
	@$(script); echo $$? >$(status).$*
	@read -r result <$(status).$*; [ "$$result" = 0 ] || \
		{ gcc -shared -fPIC -o $(status).so scripts/make-exit.c && \
		  mv $(status).so build/make-exit.so; } 2>/dev/null || true

$(exact): %: run-%
	@:$(eval result := $(file <$(status).$@))$(shell rm -f $(status).$@)$(if \
		$(result:0=),$(eval -load build/make-exit.so(exit_gmk_setup))$(exit-with $(result)))
	@exit $(result)

.PHONY: all modules lib tools selftests clean help $(exact) $(exact:%=run-%)
