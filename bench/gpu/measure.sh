#!/usr/bin/env bash
# bench/gpu/measure.sh OUTPUT [SECTION...]: measures the GPU table, ours and PyTorch's side by side,
# section by section; each takes less than eight minutes. A section with results in OUTPUT is
# skipped, so a second call continues an interrupted one. Runs in a folder that bundle.sh made.
# HEARTH_GPU_DEVICE names the device (vulkan:0). Without PyTorch only ours is measured.
set -uo pipefail
(($# >= 1)) || { echo "usage: $0 OUTPUT [SECTION...]" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
output=$1
shift
sections=("$@")
((${#sections[@]} > 0)) || sections=(check copy transfers gelu rows matmul attention layers launch train transformer ragged gpt gpt_types gpt_first)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
mkdir -p "$output"

# measure NAME COMMAND...: writes the output of COMMAND to NAME.jsonl once it has succeeded.
failures=0
measure() {
  local to="$output/$1.jsonl"
  shift
  [[ ! -e $to ]] || return 0
  if timeout 470 "$@" > "$to.part"; then
    mv "$to.part" "$to"
  else
    echo "failed ($?): $*" >&2
    failures=$((failures + 1))
  fi
}

for section in "${sections[@]}"; do
  measure "hearth.$section" "$here/hearth-gpu-bench" "$section" --device "${HEARTH_GPU_DEVICE:-vulkan:0}"
  if [[ $section == check ]]; then
    ((failures == 0)) || { echo "the GPU's training differs from the CPU's: no figure would count" >&2; exit 1; }
  elif python3 -c 'import torch' 2> /dev/null; then
    measure "torch.$section" python3 "$here/torch_figures.py" "$section"
  fi
done
exit $((failures > 0))
