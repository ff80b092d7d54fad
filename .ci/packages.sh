# Sourced by quickstart.sh, test.sh and .ci/run: which Debian packages Hearth needs, and how they get here.
# Only what is missing is installed; nothing is ever removed.

hearth_packages=( # the library and its examples
  g++ cmake ninja-build
  libtbb-dev libboost-fiber1.81-dev libopenblas-pthread-dev libxxhash-dev
  libspdlog-dev libcli11-dev nlohmann-json3-dev libcereal-dev zlib1g-dev
  libvulkan-dev glslang-dev glslang-tools spirv-tools spirv-headers # devices by Vulkan (the CMake files of glslang name its tools)
  libpng-dev libjpeg62-turbo-dev
  libminizip-dev # files of PyTorch
  libprotobuf-dev # files of ONNX: the wire reader of protobuf-lite
  rapidjson-dev # requests of the HTTP server
  libncurses-dev # the Trainer's dashboard
)
hearth_test_packages=(ccache git python3 libgtest-dev libgmock-dev libbenchmark-dev mesa-vulkan-drivers vulkan-validationlayers libonnx-testdata
  openmpi-bin) # mpirun, for trainings over several processes
hearth_clang_packages=(clang-14 libclang-rt-14-dev) # preset asan
hearth_developer_packages=("${hearth_clang_packages[@]}" clang-format-14 clang-tidy-14 doxygen)

hearth_say() { printf '\n==> %s\n' "$*"; }

hearth_stop() {
  printf '\n%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Compile jobs: one a core, but no more than memory has room for, at 1.5 GiB each.
hearth_jobs() {
  local cores room
  cores=$(nproc)
  room=$(awk '/^MemTotal/ {print int($2 / 1572864)}' /proc/meminfo)
  if ((room < 1)); then room=1; fi
  if ((room < cores)); then echo "$room"; else echo "$cores"; fi
}

hearth_missing_packages() {
  local package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      echo "$package"
    fi
  done
}

# hearth_ensure_packages PACKAGE...: returns with all of them installed, or stops with a sentence.
hearth_ensure_packages() {
  command -v dpkg-query >/dev/null ||
    hearth_stop "this script knows Debian 12 only (there is no dpkg here); README.md lists what Hearth needs."
  local missing
  mapfile -t missing < <(hearth_missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    echo "All packages are already installed."
    return
  fi
  command -v apt-get >/dev/null ||
    hearth_stop "there is no apt-get here; please install these packages yourself: ${missing[*]}"

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      hearth_stop "not root, and there is no sudo; please have these packages installed: ${missing[*]}"
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)

  hearth_say "Installing ${#missing[@]} packages with apt: ${missing[*]}"
  "${apt[@]}" update -q ||
    echo "apt-get update reported errors (above); going on with the package lists that are here."

  local plan removals
  plan=$(LC_ALL=C apt-get -s -q install --no-install-recommends "${missing[@]}" 2>&1) || {
    printf '%s\n' "$plan" >&2
    hearth_stop "apt cannot install what is missing (its words are above): ${missing[*]}"
  }
  removals=$(awk '/^Remv / {printf "%s ", $2}' <<<"$plan")
  if [[ -n $removals ]]; then
    hearth_stop "nothing was changed: to install ${missing[*]}, apt would remove packages of yours: ${removals% }." \
      "If you can do without those, remove them yourself and run this again."
  fi
  "${apt[@]}" install -q -y --no-install-recommends --no-remove "${missing[@]}" ||
    hearth_stop "apt could not install the packages; its message is above."
}
