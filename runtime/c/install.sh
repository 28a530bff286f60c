#!/usr/bin/env bash
# Installs what `cargo build --release -p tile-c` has built: the libraries, tile.h with a module map
# for Swift, and the description for pkg-config.
#
#     runtime/c/install.sh PREFIX
set -euo pipefail
[ $# = 1 ] || { echo "usage: runtime/c/install.sh PREFIX" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
built=${CARGO_TARGET_DIR:-$here/../../target}/release
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
mkdir -p "$1/lib/pkgconfig" "$1/include/tile"
prefix=$(cd "$1" && pwd)
found=0
for library in libtile.a libtile.so libtile.dylib tile.dll tile.dll.lib tile.lib; do
    if [ -e "$built/$library" ]; then
        cp "$built/$library" "$prefix/lib/"
        found=1
    fi
done
[ $found = 1 ] || { echo "build it first: cargo build --release -p tile-c" >&2; exit 1; }
if [ -e "$built/libtile.so" ]; then
    # Apps load the name with the major version, and the linker finds the one without.
    mv "$prefix/lib/libtile.so" "$prefix/lib/libtile.so.$version"
    ln -sf "libtile.so.$version" "$prefix/lib/libtile.so.${version%%.*}"
    ln -sf "libtile.so.${version%%.*}" "$prefix/lib/libtile.so"
fi
# A folder of its own, since a folder has one module map.
cp "$here/include/tile.h" "$here/include/module.modulemap" "$prefix/include/tile/"
# The libraries that `rustc --print native-static-libs` names, for apps that link libtile.a.
case $(uname) in
Darwin) private="-framework Foundation -framework Metal -framework QuartzCore -lobjc -liconv" ;;
*) private="-lgcc_s -lutil -lrt -lpthread -lm -ldl" ;;
esac
sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" -e "s|@private@|$private|" \
    "$here/tile.pc.in" >"$prefix/lib/pkgconfig/tile.pc"
echo "installed in $prefix"
