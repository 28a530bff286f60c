#!/usr/bin/env bash
# Runs unit tests of the cpu device's Arm code under emulation: `.ci/arm.sh [FILTER…]`.
#
# Needs qemu-user-static, a cross linker for aarch64, and rustup's standard library for it.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
cargo test --release --target $target --target-dir target/arm --no-default-features --features compile --locked -p tile-runtime --lib -- "$@"
