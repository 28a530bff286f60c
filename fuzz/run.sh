#!/usr/bin/env bash
# Runs fuzz targets, two at a time, each for some seconds and from a fixed seed:
#
#     fuzz/run.sh                                    # every target for 60 seconds
#     fuzz/run.sh --seconds 3600 onnx keras          # two targets for an hour
#     fuzz/run.sh --sanitizer address                # with AddressSanitizer
#
# A fault leaves its input in fuzz/artifacts/TARGET, and the exit code is 1. What is found on the
# way is kept in fuzz/corpus/TARGET. Needs `cargo install cargo-fuzz`; any Rust compiler will do.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTC_BOOTSTRAP=1 # The flags of the sanitizers are unstable.
seconds=60 sanitizer=none seed=1 targets=()
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=$2; shift 2 ;;
        --sanitizer) sanitizer=$2; shift 2 ;;
        --seed) seed=$2; shift 2 ;;
        *) targets+=("$1"); shift ;;
    esac
done
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo fuzz list)

# An input may take 10 seconds and 1 GB; the sanitizer multiplies both. The compiler itself refuses
# programs that it expects to take over 2 seconds, and instrumented code on a busy machine is slower.
limits=(-timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=1024)
[ "$sanitizer" = none ] || limits=(-timeout=40 -rss_limit_mb=4096 -malloc_limit_mb=1024)

# Folders of inputs to begin with: the target's own, and inputs of the tests.
seeds() {
    case $1 in
        language | format | lowering | run) echo fuzz/seeds/language examples ;;
        onnx) echo tests/golden/onnx ;;
        npz | keras) echo tests/golden/keras_weights ;;
        pt) echo fuzz/seeds/pt tests/golden/torch_weights ;;
        idx) echo tests/golden/data/idx ;;
        *) echo "fuzz/seeds/$1" ;;
    esac
}

fuzz() {
    mkdir -p "fuzz/corpus/$1"
    dictionary=()
    case $1 in language | format | lowering | run) dictionary=(-dict=fuzz/tile.dict) ;; esac
    # shellcheck disable=SC2046  # a list of folders
    cargo fuzz run -O --sanitizer "$sanitizer" "$1" "fuzz/corpus/$1" $(seeds "$1") -- "${limits[@]}" \
        "${dictionary[@]}" -max_total_time="$seconds" -seed="$seed" -max_len=65536 -print_final_stats=1 \
        >"fuzz/corpus/$1.log" 2>&1 && outcome=ok || outcome=FAULT
    printf '%-12s %s %s executions\n' "$1" "$outcome" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "fuzz/corpus/$1.log")"
    [ $outcome = ok ] || { tail -n 40 "fuzz/corpus/$1.log"; return 1; }
}

cargo fuzz build -O --sanitizer "$sanitizer"
export -f fuzz seeds
failed=0
printf '%s\n' "${targets[@]}" | sanitizer=$sanitizer seconds=$seconds seed=$seed limits="${limits[*]}" \
    xargs -P 2 -I {} bash -c 'limits=($limits); fuzz {}' || failed=1
exit $failed
