# SPDX-License-Identifier: GPL-2.0-only
#
# For people. What kbuild reads is in Kbuild.

# The build folder of the kernel to build the module for.
KDIR ?= /lib/modules/$(shell uname -r)/build

all: modules lib tools

# O, W, C, ARCH, CROSS_COMPILE and LLVM on the command line reach kbuild by
# themselves.
modules:
	@[ -d "$(KDIR)" ] || { echo "no kernel headers in $(KDIR):" \
		"install them (Debian: linux-headers-$$(uname -r)), or set KDIR" >&2; exit 1; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

lib:
	$(MAKE) -C lib OUT=$(CURDIR)/build/lib

tools: lib
	$(MAKE) -C tools OUT=$(CURDIR)/build/tools LIBOUT=$(CURDIR)/build/lib

# The kernel's test harness comes out of the cache.
selftests: lib
	$(if $(KSFT_DIR),,@KERNELS= scripts/setup.sh)
	$(MAKE) -C selftests OUT=$(CURDIR)/build/selftests LIBOUT=$(CURDIR)/build/lib

# Into DESTDIR: all but the module. What is put there is noted, so that uninstall,
# with the same variables, leaves nothing.
PREFIX ?= /usr/local
MANDIR ?= $(PREFIX)/share/man
manifest = $(PREFIX)/lib/devpool/manifest

# By another name, so that make -n does not run what follows it.
submake = $(MAKE)

install: lib tools
	@stage=$$(mktemp -d) && trap 'rm -rf "$$stage"' EXIT && \
	$(submake) -s -C lib install OUT=$(CURDIR)/build/lib DESTDIR="$$stage" && \
	$(submake) -s -C tools install OUT=$(CURDIR)/build/tools \
		LIBOUT=$(CURDIR)/build/lib DESTDIR="$$stage" && \
	for page in Documentation/man/man*/*.[0-9]; do \
		install -D -m 644 $$page "$$stage$(MANDIR)/$${page#Documentation/man/}" || exit; \
	done && \
	DESTDIR="$(DESTDIR)" scripts/install.sh add "$$stage" $(manifest)

uninstall:
	@DESTDIR="$(DESTDIR)" scripts/install.sh remove $(manifest)

modules_install:
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules_install

dkms:
	@DKMSSRC="$(DKMSSRC)" DKMSFLAGS="$(DKMSFLAGS)" DKMSBUILD="$(DKMSBUILD)" \
		scripts/dkms.sh add

dkms-remove:
	@DKMSSRC="$(DKMSSRC)" DKMSFLAGS="$(DKMSFLAGS)" scripts/dkms.sh remove

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
series = $(lastword $(or $(KERNELS),$(if $(filter-out 0 no,$(DEBUG)),6.12-kasan,6.12)))

run-setup: script = scripts/setup.sh --update
run-vm:    script = KERNELS=$(series) scripts/setup.sh && \
		    scripts/build.sh $(series) && KERNELS=$(series) selftests/vm/run.sh
run-demo:  script = selftests/vm/demo.sh
run-bench: script = selftests/vm/bench.sh
run-check: script = selftests/vm/check.sh
run-check-debug: script = selftests/vm/check.sh --debug
run-coverage: script = selftests/vm/coverage.sh
run-bench-docs:    script = selftests/bench/document.sh
run-bench-compare: script = selftests/bench/compare.sh
run-lint:  script = scripts/lint.sh
run-mutants: script = selftests/mutants/run.sh
run-docs:  script = scripts/docs.sh

# make answers 2 to whatever fails; these end with the status of what they ran,
# by a function that make has to be given first. Without a compiler it is 2.
exact := setup vm demo bench bench-docs bench-compare check check-debug coverage lint docs \
	mutants
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

.PHONY: all modules lib tools selftests clean help install uninstall modules_install \
	dkms dkms-remove $(exact) $(exact:%=run-%)
