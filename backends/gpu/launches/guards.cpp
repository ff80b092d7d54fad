#include "guards.hpp"

#include <algorithm>

#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

// Cells of one dispatch: one block of parameters holds this number.
constexpr std::size_t kCellsOfPiece = 64;

std::string text_of_scan() {
  const std::size_t size = 8 + 8 + 4 + 4 + 4 * kCellsOfPiece;
  return glsl_prelude({.threads = 32}) +
         glsl_parameters("uint64_t cells; uint64_t word; uint count; uint is_first; uint cell[64];",
                         size) +
         R"(
FN void main() {
  if (THREAD == 0u) {
    uint failed = p.is_first != 0u ? 0u : Words32u(p.word).v[0];
    for (uint i = 0u; i < p.count; ++i) {
      failed |= Words32u(p.cells + uint64_t(p.cell[i]) * 32ul).v[0];
    }
    Words32u(p.word).v[0] = failed;
  }
}
)";
}

}  // namespace

std::uint64_t Guards::known(std::span<const ErrorCell> cells) const noexcept {
  return !known_.empty() && std::ranges::equal(known_, cells) ? known_word_ : 0;
}

std::uint64_t Guards::next_word() noexcept {
  next_ = (next_ + 1) % kWords;
  return words_.address + std::uint64_t{4} * next_;
}

Status Guards::scan(std::span<const ErrorCell> cells,
                    std::uint64_t cells_address,
                    std::uint64_t word,
                    KernelEncoder& encoder) {
  const std::span<const ErrorCell> all = cells;
  known_.clear();
  for (bool is_first = true; !cells.empty(); is_first = false) {
    const std::size_t count = std::min(cells.size(), kCellsOfPiece);
    ParameterBlock parameters;
    parameters.add(cells_address)
        .add(word)
        .add(static_cast<std::uint32_t>(count))
        .add(is_first ? 1U : 0U);
    for (std::size_t i = 0; i < kCellsOfPiece; ++i) {
      parameters.add(i < count ? cells[i] : 0U);
    }
    if (!is_first) {
      encoder.barrier();
    }
    const auto make_text = [] { return text_of_scan(); };
    HEARTH_TRY_STATUS(encoder.dispatch(KernelKey(KernelFamily::guards), make_text, parameters, {}));
    cells = cells.subspan(count);
  }
  // Records the list only now, when a kernel will write its word. An earlier entry could make an
  // update read the word of another list.
  known_.assign(all.begin(), all.end());
  known_word_ = word;
  return {};
}

}  // namespace hearth::gpu
