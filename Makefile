# A short front for meson. `make help` lists what it can do.
BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= $(if $(CI),60,10)
STRESS_SECONDS ?= 120
export DESTDIR FUZZ_SECONDS SITUATIONS PARTS

.PHONY: all run weak test test-vm escape lint asan fuzz fault coverage bench compat stress chaos levels install clean help

all: ## build coto, coto-init and coto-policy in build/
	@tools/install-deps build
	@tools/configure $(BUILD)
	@ninja -C $(BUILD) --quiet

run: ## build, then run examples/hello.py in a sandbox
	@tools/install-deps run
	@$(MAKE) --no-print-directory all
	$(BUILD)/coto run examples/hello.py

weak: ## build-weak/: for tests only, walls can be left out one by one
	@tools/configure build-weak -Dweak=true
	@ninja -C build-weak --quiet coto coto-init coto-policy

test: ## build and run every test; ends with "N passed, N failed"
	@tools/install-deps test
	@$(MAKE) --no-print-directory all weak
	@tests/run $(BUILD)

test-vm: ## the suites on Debian's own kernel in QEMU: cgroup v2, AppArmor, systemd; ends with "N passed, N failed"
	@tools/install-deps vm
	@$(MAKE) --no-print-directory all weak
	@tests/vm/run $(BUILD)

escape: ## every attack in every situation (SITUATIONS="root user userns old"); writes docs/EVIDENCE.md
	@tools/install-deps test
	@$(MAKE) --no-print-directory all weak
	@tests/run --escape $(BUILD)

levels: ## promises, HumanEval's 164 and the attacks at every level (LEVELS="oci+runc docker+runsc", PARTS=HumanEval); writes docs/ISOLATION_STRATEGIES.md
	@tools/install-deps test
	@$(MAKE) --no-print-directory all weak
	@tests/levels-run $(BUILD) $(LEVELS)

lint: ## gcc and clang with warnings as errors, clang-tidy, cppcheck, shellcheck, layers
	@tools/install-deps test
	@$(MAKE) --no-print-directory all
	@tools/lint

asan: ## the whole suite on an AddressSanitizer and UBSan build in build-asan/
	@tools/install-deps test
	@tools/configure build-asan -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C build-asan --quiet
	@$(MAKE) --no-print-directory weak
	@tests/run build-asan

fuzz: ## build the fuzz targets and run each for FUZZ_SECONDS
	@tools/install-deps test
	@$(MAKE) --no-print-directory all
	@tests/fuzz/run

fault: ## every system call and allocation of a run fails in turn; the quick set is part of make test
	@tools/install-deps test
	@$(MAKE) --no-print-directory all weak
	@COTO_FAULT_EVERY=1 TESTS=tests/fault tests/run $(BUILD) -s

coverage: ## lines and branches the whole suite reaches; writes docs/COVERAGE.md
	@tools/install-deps test
	@$(MAKE) --no-print-directory weak
	@tests/coverage/run

bench: ## start-up time, memory and throughput against bwrap and no sandbox
	@tools/install-deps test
	@$(MAKE) --no-print-directory all
	@tests/bench/run $(BUILD)

compat: ## CPython's own tests inside and outside, half an hour; writes docs/COMPATIBILITY.md
	@tools/install-deps test
	@$(MAKE) --no-print-directory all
	@tests/strangers/compat $(BUILD)

stress: ## stress-ng and trinity inside for minutes (STRESS_SECONDS); is the host well?
	@tools/install-deps test
	@$(MAKE) --no-print-directory all
	@tests/strangers/stress $(BUILD) $(STRESS_SECONDS)

chaos: ## the service with 64 clients for ten minutes (SECONDS) among random kills; a table at the end
	@tools/install-deps test
	@$(MAKE) --no-print-directory all
	@tests/api/chaos $(BUILD) $(or $(SECONDS),600)

install: ## install below PREFIX (/usr/local), under DESTDIR when set
	@tools/install-deps build
	@tools/configure $(BUILD) --prefix=$(PREFIX)
	@ninja -C $(BUILD) --quiet
	@meson install -C $(BUILD) --no-rebuild --quiet

clean: ## remove everything that was built
	rm -rf build build-asan build-lint build-fuzz build-weak build-vm build-coverage

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16
