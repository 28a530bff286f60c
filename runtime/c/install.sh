#!/usr/bin/env bash
# Installs what `cargo build --release -p tile-c` has built: the libraries, tile.h, and the
# description for pkg-config.
#
#     runtime/c/install.sh PREFIX
set -euo pipefail
[ $# = 1 ] || { echo "usage: runtime/c/install.sh PREFIX" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
built=${CARGO_TARGET_DIR:-$here/../../target}/release
mkdir -p "$1/lib/pkgconfig" "$1/include"
prefix=$(cd "$1" && pwd)
found=0
for library in libtile.a libtile.so libtile.dylib tile.dll tile.dll.lib; do
    if [ -e "$built/$library" ]; then
        cp "$built/$library" "$prefix/lib/"
        found=1
    fi
done
[ $found = 1 ] || { echo "build it first: cargo build --release -p tile-c" >&2; exit 1; }
cp "$here/include/tile.h" "$prefix/include/"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" "$here/tile.pc.in" >"$prefix/lib/pkgconfig/tile.pc"
echo "installed in $prefix"
