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
# Apps on Linux load the library by the name with the version, and the linker finds the one without.
# Before 1.0, a minor version may break.
case $version in
0.*) soname=libtile.so.$(cut -d. -f1,2 <<<"$version") ;;
*) soname=libtile.so.${version%%.*} ;;
esac
for library in libtile.a libtile.so libtile.dylib tile.dll tile.dll.lib tile.lib; do
    [ -e "$built/$library" ] || continue
    found=1
    installed=$prefix/lib/$library
    rm -f "$installed"
    if [ $library = libtile.so ]; then
        ln -s "$soname" "$installed"
        installed=$prefix/lib/$soname
        rm -f "$installed"
    fi
    cp "$built/$library" "$installed"
done
[ $found = 1 ] || { echo "build it first: cargo build --release -p tile-c" >&2; exit 1; }
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
