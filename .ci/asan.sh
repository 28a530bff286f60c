#!/usr/bin/env bash
# Runs unit tests of the cpu device under AddressSanitizer, with debug assertions: `.ci/asan.sh [FILTER…]`.
#
# The sanitizer is an unstable option of the compiler, which RUSTC_BOOTSTRAP allows. The target is named, so that
# build scripts and macros are compiled without it.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
# The thread pool lives until the process ends.
export ASAN_OPTIONS=detect_leaks=0
cargo test --target x86_64-unknown-linux-gnu --target-dir target/asan --no-default-features --features compile --locked \
    -p tile-runtime --lib -- "$@"
