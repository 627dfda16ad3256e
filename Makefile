# Entry points of oversold for people: `make` lists them. CI calls `test` and `lint` through .ci/run.

CARGO ?= cargo
BIN := $(or $(CARGO_TARGET_DIR),target)/release/oversold
DEMO := $(BIN) compare scenarios/incident-137.toml --locks setnx-expire-del,token-lua-watchdog

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: demo test lint bench fuzz setup help

demo: setup ## Build, then run the incident-137 scenario against a broken lock and a sound one
	@$(CARGO) build --locked --release
# make turns every exit code but 0 into its own 2. The code of oversold is therefore printed here;
# scripts that need it should call the printed command line themselves.
	@echo '+ $(DEMO)' >&2; code=0; $(DEMO) || code=$$?; \
	if [ $$code -ne 0 ]; then \
		echo "make demo: oversold ended with exit code $$code (make itself reports 2 for any failure)" >&2; \
	fi; \
	exit $$code

test: setup ## Run every test, with cargo-nextest if it is installed, and the doc tests
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) nextest run --locked --retries 0; \
	else \
		$(CARGO) test --locked --tests; \
	fi
	@$(CARGO) test --locked --doc

lint: ## Check formatting, clippy and the documentation; a warning is an error
	@$(CARGO) fmt --check
	@$(CARGO) clippy --locked --all-targets -- -D warnings
	@RUSTDOCFLAGS="$${RUSTDOCFLAGS:+$$RUSTDOCFLAGS }-D warnings" $(CARGO) doc --locked --no-deps

bench: setup ## Measure what docs/performance.md claims; needs a quiet machine, and redis-benchmark
	@$(CARGO) bench --locked --bench figures

FUZZ_SECONDS ?= 900
fuzz: ## Fuzz the link's framing for FUZZ_SECONDS; needs cargo-fuzz
# cargo-fuzz asks for flags of the nightly compiler: the variable lets the stable one take them.
	@mkdir -p fuzz/corpus/framing
	@RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --sanitizer none framing fuzz/corpus/framing fuzz/seeds/framing \
		-- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1

setup: ## Install what is missing besides Rust: redis-server, a C compiler
	@sh scripts/setup.sh

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile
