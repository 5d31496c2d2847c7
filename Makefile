# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# Front door to the scripts and to CMake; `make` alone lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# One compiler process per core, but no more than one per 1.5 GB of memory.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ { n = int($$2 / 1.5e6); \
    print n < 1 ? 1 : (n < cores ? n : cores) }' /proc/meminfo)
PREFIX ?= /usr/local
PRESET ?= release

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-9s %s\n", $$1, $$2 }'
	@echo "  variables: JOBS=$(JOBS) PRESET=$(PRESET) (debug asan tsan) PREFIX=$(PREFIX)"

setup: ## install what is missing: system packages, LibTorch
	@scripts/setup.sh

build: setup ## the program, build/bin/subbyte
	@cmake --preset $(PRESET) -Wno-dev >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS) --target subbyte

demo: build ## train a small model, plan its precision, show what came out
	@scripts/demo.sh

# Tests run side by side: threads that wait must not spin (ten times slower on a busy machine).
test: export OMP_WAIT_POLICY = passive
test: ## build and run the tests that take under a minute each
	@scripts/setup.sh test
	@scripts/check_layers.py
	@cmake --preset $(PRESET) -Wno-dev -DSUBBYTE_DEV=ON >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS)
	@ctest --preset $(PRESET) -j $(JOBS)

bench: ## build and run the benchmarks
	@scripts/setup.sh test
	@cmake --preset $(PRESET) -Wno-dev -DSUBBYTE_DEV=ON >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS)
	@scripts/bench.sh

format: ## put the sources into the project's layout
	@scripts/setup.sh lint
	@scripts/lint.sh format

lint: ## layers, layout, clang-tidy
	@scripts/setup.sh test lint
	@scripts/lint.sh

install: build ## the program, headers and libraries into PREFIX
	@cmake --build --preset $(PRESET) -j $(JOBS)
	@cmake --install build --prefix $(PREFIX)

clean: ## delete what was built (not .venv)
	rm -rf build

.PHONY: help setup build demo test bench format lint install clean
