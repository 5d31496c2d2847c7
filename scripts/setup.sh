#!/usr/bin/env bash
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing to build subbyte: system packages by apt, LibTorch by pip into .venv.
#
#   scripts/setup.sh [test] [lint]     also what the tests / the lint step need
#
# Looks at what is really there each time, says what it will fetch before it does, and prints
# nothing when nothing is missing. Environment:
#
#   SUBBYTE_TORCH_DIR   LibTorch to use instead: the folder with include/ and lib/
#   SUBBYTE_PYTHON      Python whose package torch to use instead
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly torch_version=2.13.0
readonly torch_cpu_index=https://download.pytorch.org/whl/cpu
readonly log=.cache/setup.log

say() { printf 'setup: %s\n' "$*"; }

# fail WHAT HINT...: one line that says what went wrong, then what to try.
fail() {
    printf 'setup: error: %s\n' "$1" >&2
    shift
    printf '  %s\n' "$@" >&2
    exit 1
}

# quietly CMD...: output goes to the log; its end is shown if the command fails.
quietly() {
    mkdir -p .cache
    "$@" >>"$log" 2>&1 </dev/null && return
    tail -n 8 "$log" | sed 's/^/  | /' >&2
    return 1
}

# --- what is missing -----------------------------------------------------------------------------

# Prints the packages (Debian's names) whose command or header is not there, whoever installed it.
missing_packages() {
    local -A commands=([g++]=g++ [cmake]=cmake [ninja-build]=ninja [ccache]=ccache)
    local -A headers=(
        [coinor-libcbc-dev]=coin/CbcModel.hpp
        [libcli11-dev]=CLI/CLI.hpp
        [libfmt-dev]=fmt/format.h
        [libpcre2-dev]=pcre2.h
        [libsentencepiece-dev]=sentencepiece_processor.h
        [libtomlplusplus-dev]=toml++/toml.h
        [libxxhash-dev]=xxhash.h
        [nlohmann-json3-dev]=nlohmann/json.hpp
        [zlib1g-dev]=zlib.h
    )
    local group package
    for group in "$@"; do
        case $group in
            test)
                headers[libgtest-dev]=gtest/gtest.h
                headers[libbenchmark-dev]=benchmark/benchmark.h
                ;;
            lint) commands+=([clang-format]=clang-format [clang-tidy]=clang-tidy) ;;
            *) fail "unknown group '$group'" "use: scripts/setup.sh [test] [lint]" ;;
        esac
    done

    for package in "${!commands[@]}"; do
        command -v "${commands[$package]}" >/dev/null || echo "$package"
    done
    if command -v "${CXX:-g++}" >/dev/null; then
        # The compiler itself says which headers it does not find.
        for package in "${!headers[@]}"; do
            printf '#if !__has_include(<%s>)\n%s\n#endif\n' "${headers[$package]}" "$package"
        done | "${CXX:-g++}" -E -P -x c++ - | tr -d ' '
    else
        printf '%s\n' "${!headers[@]}"
    fi
    if ! torch_present && ! find_python >/dev/null; then
        echo python3-venv
        echo ca-certificates
    fi
}

# Prints the first Python that LibTorch's package supports and that can make an environment.
find_python() {
    local python
    for python in python3 /usr/bin/python3 python3.1{3,2,1,0}; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info)' \
            2>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

# Whether LibTorch is there. A record of pip alone is not believed, nor is a half-installed package.
torch_present() {
    if [[ -n ${SUBBYTE_TORCH_DIR:-} ]]; then
        [[ -e $SUBBYTE_TORCH_DIR/lib/libtorch_cpu.so && -d $SUBBYTE_TORCH_DIR/include/ATen ]] ||
            fail "SUBBYTE_TORCH_DIR=$SUBBYTE_TORCH_DIR holds no LibTorch" \
                "name the folder with include/ and lib/, or unset it to have one installed"
    elif [[ -n ${SUBBYTE_PYTHON:-} ]]; then
        "$SUBBYTE_PYTHON" -c \
            'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' ||
            fail "SUBBYTE_PYTHON=$SUBBYTE_PYTHON has no package torch" \
                "run: $SUBBYTE_PYTHON -m pip install torch==$torch_version" \
                "or unset it to have one installed into .venv"
    else
        local site
        for site in .venv/lib/python3*/site-packages; do
            [[ -e $site/torch/lib/libtorch_cpu.so && -d $site/torch/include/ATen ]] || continue
            compgen -G "$site/torch-$torch_version*.dist-info/RECORD" >/dev/null && return
        done
        return 1
    fi
}

# --- install -------------------------------------------------------------------------------------

install_packages() {
    local -a as_root=()
    if ! command -v apt-get >/dev/null; then
        fail "these are missing and this system has no apt-get: $*" \
            "install what they are called here (names above are Debian's), then run this again;" \
            "it looks for commands and headers, not for packages"
    fi
    if [[ $EUID -ne 0 ]]; then
        command -v sudo >/dev/null || fail "not root and no sudo; missing packages: $*" \
            "ask an administrator for: apt-get install $*"
        as_root=(sudo)
    fi
    as_root+=(env DEBIAN_FRONTEND=noninteractive)

    say "apt packages: $*"
    # The password question of sudo must come before its output goes to the log.
    [[ ${as_root[0]} != sudo ]] || sudo true || fail "sudo refused" \
        "run this again in a terminal, or ask an administrator for: apt-get install $*"
    quietly "${as_root[@]}" apt-get update -q ||
        say "apt-get update failed; trying with the old lists"
    # Answering no to the question is a failure to apt-get, and not to us.
    { apt-get install --assume-no --no-install-recommends "$@" 2>/dev/null || true; } |
        sed -n -E 's/^(Need to get|After this)/setup:   &/p'
    quietly "${as_root[@]}" apt-get install -y -q --no-install-recommends "$@" ||
        fail "apt-get could not install: $*" \
            "check the network and the package lists (apt-get update), then run this again;" \
            "tested on Debian 12, needs the packages of Debian 12 / Ubuntu 24.04 or newer;" \
            "the whole output is in $log"
}

install_torch() {
    local python
    local -a index=()
    python=$(find_python) || fail "no Python 3.10 or newer that can make an environment (venv)" \
        "install one, or set SUBBYTE_PYTHON to a Python with torch $torch_version," \
        "or SUBBYTE_TORCH_DIR to an unpacked LibTorch"
    if [[ ! -x .venv/bin/python ]] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        quietly "$python" -m venv --clear .venv || fail "$python could not make .venv" "see $log"
    fi

    if nvidia-smi -L >/dev/null 2>&1; then
        say "pip package torch $torch_version into .venv, for NVIDIA GPUs: about 3 GB to download"
    elif timeout 10 .venv/bin/python -c \
        'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=4)' \
        "$torch_cpu_index/torch/" >/dev/null 2>&1; then
        index=(--extra-index-url "$torch_cpu_index")
        say "pip package torch $torch_version (CPU) into .venv: 0.25 GB to download, 1 GB on disk"
    else
        say "pip package torch $torch_version into .venv: 0.25 GB (CPU) to 3 GB (CUDA) to download"
        say "(from pip's own index: $torch_cpu_index does not answer)"
    fi
    # The remains of another version or of an interrupted installation would be believed by pip.
    rm -rf .venv/lib/python3*/site-packages/torch{,-*.dist-info}
    quietly .venv/bin/python -m pip install --disable-pip-version-check --retries 2 \
        "${index[@]}" "torch==$torch_version" || fail "pip could not install torch $torch_version" \
        "check the network and what pip uses (pip config list; PIP_CERT where a proxy has its" \
        "own certificate), then run this again;" \
        "or set SUBBYTE_PYTHON to a Python with torch, or SUBBYTE_TORCH_DIR to a LibTorch;" \
        "the whole output is in $log"
    torch_present || fail "torch was installed, but its libraries are not in .venv" "see $log"
}

mapfile -t packages < <(missing_packages "$@" | sort)
wait $! || exit 1 # the list's own errors
if [[ ${#packages[@]} -gt 0 ]]; then
    install_packages "${packages[@]}"
    mapfile -t packages < <(missing_packages "$@" | sort)
    [[ ${#packages[@]} -eq 0 ]] || fail "still missing after the installation: ${packages[*]}" \
        "see $log"
    say "system packages are there"
fi
if ! torch_present; then
    install_torch
    say "LibTorch is there"
fi
