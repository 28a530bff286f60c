#!/usr/bin/env bash
# Apps that ship without the compiler: their size, and that Rust and C compute the same bits.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
target=${CARGO_TARGET_DIR:-target}

"$target/release/tilec" build examples/models/mobilenet.tile -o "$folder/m.tilepack" \
    --shape Image=1x224x224x3 --random 1
python3 - "$folder/picture.f32" <<'END'
import array, sys
values = array.array("f", ((place % 251) / 251 for place in range(224 * 224 * 3)))
open(sys.argv[1], "wb").write(values.tobytes())
END

cargo build --profile app -p classify --locked
size=$(wc -c <"$target/app/classify")
echo "an app that runs packs on cpu has $size bytes"
"$target/app/classify" "$folder/m.tilepack" "$folder/picture.f32" "$folder/rust.f32"

cargo build --release -p tile-c --no-default-features --locked
runtime/c/install.sh "$folder"
PKG_CONFIG_PATH=$folder/lib/pkgconfig
flags="-I$folder/include/tile -L$folder/lib -ltile -Wl,-rpath,$folder/lib"
if command -v pkg-config >/dev/null; then
    flags="$(PKG_CONFIG_PATH=$PKG_CONFIG_PATH pkg-config --cflags --libs tile) -Wl,-rpath,$folder/lib"
fi
# shellcheck disable=SC2086  # a list of options
cc -Wall -Wextra -Werror -O2 runtime/c/examples/classify.c $flags -o "$folder/classify"
"$folder/classify" "$folder/m.tilepack" "$folder/picture.f32" "$folder/c.f32"
cmp "$folder/rust.f32" "$folder/c.f32"
private=$(sed -n 's/^Libs.private: //p' "$folder/lib/pkgconfig/tile.pc")
# shellcheck disable=SC2086  # a list of options
cc -Wall -Wextra -Werror -O2 runtime/c/examples/classify.c "-I$folder/include/tile" \
    "$folder/lib/libtile.a" $private -o "$folder/static"
"$folder/static" "$folder/m.tilepack" "$folder/picture.f32" "$folder/static.f32"
cmp "$folder/rust.f32" "$folder/static.f32"
if [ "$size" -gt 4790000 ]; then
    echo "an app that runs packs on cpu has $size bytes, and 4,790,000 are allowed" >&2
    exit 1
fi
