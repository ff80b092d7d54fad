#!/usr/bin/env bash
# .ci/tsan_libraries.sh PREFIX
# Builds Boost.Context, Boost.Fiber and oneTBB for the thread sanitizer, from the distribution's source
# packages, into PREFIX. The packaged ones switch stacks behind the sanitizer's back and report false races.
# Needs no root and leaves the machine's package sources alone. Does nothing when PREFIX is up to date.
set -euo pipefail
[[ $# == 1 ]] || { echo "usage: $0 PREFIX" >&2; exit 2; }
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
recipe=$(cksum <"${BASH_SOURCE[0]}")
[[ -f $prefix/recipe && $(<"$prefix/recipe") == "$recipe" ]] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial,parts,source,boost,tbb}

# The machine's own entries, as source entries, in a package state of our own.
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [[ -f $file ]] || continue
  case $file in
    *.sources) sed -E 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/${file##*/}" ;;
    *.list) sed -nE 's/^deb /deb-src /p' "$file" >"$work/parts/${file##*/}" ;;
  esac
done
apt=(apt-get -q -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$work/parts"
     -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=")
"${apt[@]}" update >"$work/update.log" 2>&1 || true # entries without sources do no harm
(cd "$work/source" && "${apt[@]}" source --download-only boost1.81 onetbb) || {
  cat "$work/update.log" >&2
  echo "$0: cannot fetch the source packages boost1.81 and onetbb." >&2
  exit 1
}
tar -C "$work/boost" --strip-components=1 --wildcards -xf "$work"/source/boost1.81_*.orig.tar.* \
  '*/libs/context/src/*' '*/libs/fiber/src/*'
tar -C "$work/tbb" --strip-components=1 -xf "$work"/source/onetbb_*.orig.tar.*

# Boost: the packaged headers, our own objects.
flags=(-std=c++17 -w -O2 -g1 -fPIC -fsanitize=thread -DBOOST_USE_UCONTEXT -DBOOST_USE_TSAN)
sources=("$work"/boost/libs/context/src/{fiber,continuation,posix/stack_traits}.cpp
         "$work"/boost/libs/fiber/src/*.cpp "$work"/boost/libs/fiber/src/algo/*.cpp)
printf '%s\n' "${sources[@]}" |
  xargs -P "$(nproc)" -I{} sh -c 'g++ "$@" -c "$0" -o "'"$work"'/$(basename "$0" .cpp)-$(echo "$0" | cksum | cut -d" " -f1).o"' {} "${flags[@]}"
mkdir -p "$prefix/lib/cmake/Boost-1.81.0"
rm -f "$prefix/lib/libboost_fiber_tsan.a"
ar rcs "$prefix/lib/libboost_fiber_tsan.a" "$work"/*.o
cat >"$prefix/lib/cmake/Boost-1.81.0/BoostConfig.cmake" <<'CMAKE'
find_package(Threads REQUIRED)
if(NOT TARGET Boost::fiber)
  add_library(Boost::fiber STATIC IMPORTED)
  set_target_properties(Boost::fiber PROPERTIES
    IMPORTED_LOCATION ${CMAKE_CURRENT_LIST_DIR}/../../libboost_fiber_tsan.a
    INTERFACE_COMPILE_DEFINITIONS "BOOST_USE_UCONTEXT;BOOST_USE_TSAN"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
  add_library(Boost::context ALIAS Boost::fiber) # one archive holds both
endif()
if(NOT TARGET Boost::headers)
  add_library(Boost::headers INTERFACE IMPORTED) # the packaged ones
  # The sanitizer knows no fences. Asio orders its handlers by a mutex too.
  set_target_properties(Boost::headers PROPERTIES INTERFACE_COMPILE_DEFINITIONS BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
set(Boost_context_FOUND TRUE)
set(Boost_fiber_FOUND TRUE)
CMAKE
cat >"$prefix/lib/cmake/Boost-1.81.0/BoostConfigVersion.cmake" <<'CMAKE'
set(PACKAGE_VERSION 1.81.0)
if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
CMAKE

cmake -S "$work/tbb" -B "$work/tbb-build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTBB_SANITIZE=thread \
  -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF -DCMAKE_INSTALL_LIBDIR=lib \
  -DCMAKE_INSTALL_PREFIX="$prefix" >"$work/tbb.log" || { cat "$work/tbb.log" >&2; exit 1; }
cmake --build "$work/tbb-build" --target install -- -j "$(nproc)" >"$work/tbb.log" || { cat "$work/tbb.log" >&2; exit 1; }
echo "$recipe" >"$prefix/recipe"
