// Chooses and runs the sort. One workgroup sorts a line of up to 2,048 elements in shared memory
// (bitonic); a workgroup takes several short lines. For a longer line of which few elements are
// kept, groups sort pieces of 2,048 and keep the first of each, until one piece is left. If many
// are kept, a radix sort processes the entries in scratch, 4 bits a pass. Groups count 2,048
// entries each, the counts of a line are scanned, and each group moves its entries to their places,
// in order.
#include "entry_sort.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/space/axis_list.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "entry_sort_text.hpp"

namespace hearth::gpu {
namespace {

enum class SortStep : std::uint32_t { pieces, entries, count, scan, scatter, take };

constexpr std::int64_t kPiece = kMostGroupLine;
constexpr std::int64_t kLeastGroupEntries = 512;  // a group takes short lines up to this
constexpr std::int64_t kFew = 256;                // kept by pieces; the radix sort keeps more
constexpr int kPassBits = 4;
constexpr std::int64_t kBins = 1 << kPassBits;

// Parameters of all shaders of a sort. They read `entries` and write `sorted`.
struct SortBlock {
  std::uint64_t entries = 0;
  std::uint64_t sorted = 0;
  std::uint64_t counts = 0;
  SortTarget target = {};
  std::int64_t size = 0;    ///< Elements, or entries, of a line.
  std::int64_t pieces = 1;  ///< Pieces of a line.
  std::int64_t kept = 0;    ///< Kept entries of a line, or of a piece.
  int piece_size = 0;       ///< A power of two.
  int lines_each = 1;       ///< Lines of a group.
  int shift = 0;            ///< First bit of the digit.
};

constexpr std::string_view kSortMembers =
    "uint64_t x; uint64_t entries; uint64_t sorted; uint64_t counts; uint64_t values; uint64_t "
    "positions; uint64_t cell; int64_t axis_size; int64_t place_inner; INDEX lines; INDEX extent; "
    "INDEX pieces; INDEX kept; INDEX inner; INDEX x_begin; INDEX x_step; int piece_size; int "
    "lines_each; int shift; int flip; ";

ParameterBlock sort_block(const SortOf& sort,
                          const SortBlock& with,
                          bool sees_elements,
                          bool wide) {
  ParameterBlock block;
  block.add(sort.lines.address).add(with.entries).add(with.sorted).add(with.counts);
  block.add(with.target.values).add(with.target.positions).add(sort.cell);
  block.add(sort.axis_size).add(sort.place_inner);
  for (const std::int64_t value : {sort.lines.count(),
                                   with.size,
                                   with.pieces,
                                   with.kept,
                                   sort.lines.inner,
                                   sort.lines.start,
                                   sort.lines.step}) {
    add_index(block, value, wide);
  }
  block.add(with.piece_size).add(with.lines_each).add(with.shift);
  block.add(sort.order == KeyOrder::descending ? 1 : 0);
  if (sees_elements) {
    add_walk(block, sort.lines.space, 1, wide);
  }
  return block;
}

/// Runs one step. `flags` are further options of its text; `body` stands at the text's end.
class Sorter {
 public:
  Sorter(const SortOf& sort, KernelEncoder& encoder) noexcept
      : sort_(sort),
        encoder_(encoder),
        wide_(is_wide(
            std::max(2 * sort.lines.count() * (sort.lines.length + kPiece), sort.lines.reach))) {}

  [[nodiscard]] Status run(SortStep step,
                           const SortBlock& with,
                           std::uint32_t flags,
                           std::string_view body,
                           std::int64_t groups) {
    // The steps between read entries only.
    const bool sees_elements =
        step == SortStep::pieces || step == SortStep::entries || step == SortStep::take;
    const ParameterBlock block = sort_block(sort_, with, sees_elements, wide_);
    const bool is_index = sort_.order == KeyOrder::index;
    KernelKey key(KernelFamily::topk);
    key.add(static_cast<std::uint32_t>(step)).add(sort_.is_wide()).add(wide_).add(flags);
    if (sees_elements) {
      key.add(sort_.dtype).add(is_index).add(sort_.lines.space.rank);
    }
    const auto text = [&] {
      const int rank = sort_.lines.space.rank;
      std::string made =
          fmt::format("{}{}{}{}",
                      glsl_prelude({.threads = kGroupThreads, .wide_index = wide_}),
                      glsl_uindex(wide_),
                      glsl_parameters(std::string(kSortMembers) +
                                          (sees_elements ? glsl_walk_members(rank, "x") : ""),
                                      block.size_bytes()),
                      glsl_entry(sort_.is_wide()));
      if (sees_elements) {
        made += fmt::format("{}{}{}{}{}",
                            glsl_unit(static_cast<int>(size_bytes(sort_.dtype))),
                            glsl_fail(),
                            glsl_walk(rank, "x"),
                            glsl_key(sort_.dtype, is_index),
                            glsl_flags(flags));
      }
      return made.append(body);
    };
    return encoder_.dispatch(key, text, block, encoder_.linear(groups));
  }

  /// Sorts pieces of the lines, or of the entries that an earlier step wrote to `from`, `size` of a
  /// line.
  [[nodiscard]] Status pieces(SortBlock with, std::uint32_t flags) {
    with.pieces = quotient_up(with.size, kPiece);
    const auto longest = static_cast<std::uint64_t>(std::min(with.size, kPiece));
    with.piece_size = static_cast<int>(std::max<std::uint64_t>(std::bit_ceil(longest), 2));
    with.lines_each =
        static_cast<int>(std::max<std::int64_t>(kLeastGroupEntries / with.piece_size, 1));
    const std::int64_t all = sort_.lines.count() * with.pieces;
    return run(SortStep::pieces, with, flags, kPiecesBody, quotient_up(all, with.lines_each));
  }

 private:
  const SortOf& sort_;
  KernelEncoder& encoder_;
  bool wide_;
};

/// Sorts entries by their keys, from `a` by way of `b`. Returns which of the two holds the result.
Result<std::uint64_t> radix(const SortOf& sort,
                            std::uint64_t a,
                            std::uint64_t b,
                            std::uint64_t counts,
                            Sorter& sorter,
                            KernelEncoder& encoder) {
  const std::int64_t blocks = quotient_up(sort.lines.length, kPiece);
  const std::int64_t groups = sort.lines.count() * blocks;
  SortBlock with{.sorted = a, .counts = counts, .size = sort.lines.length, .pieces = blocks};
  HEARTH_TRY_STATUS(sorter.run(SortStep::entries, with, 0, kEntriesBody, groups));
  for (int shift = 0; shift < sort.key_bits(); shift += kPassBits) {
    encoder.barrier();
    with.entries = a;
    with.sorted = b;
    with.shift = shift;
    HEARTH_TRY_STATUS(sorter.run(SortStep::count, with, 0, kCountBody, groups));
    encoder.barrier();
    HEARTH_TRY_STATUS(sorter.run(SortStep::scan, with, 0, kScanBody, sort.lines.count()));
    encoder.barrier();
    HEARTH_TRY_STATUS(sorter.run(SortStep::scatter, with, 0, kScatterBody, groups));
    std::swap(a, b);
  }
  return a;
}

struct RadixMemory {
  explicit RadixMemory(const SortOf& sort) noexcept {
    const std::int64_t blocks = quotient_up(sort.lines.length, kPiece);
    entry_bytes = sort.lines.count() * sort.lines.length * sort.entry_bytes();
    count_bytes = sort.lines.count() * blocks * kBins * 4;
  }
  [[nodiscard]] std::int64_t all() const noexcept { return 2 * entry_bytes + count_bytes; }

  std::int64_t entry_bytes;
  std::int64_t count_bytes;
};

/// Bytes of the entries that the first pass over pieces leaves. There are two such buffers, which
/// steps alternate between.
std::int64_t pieces_bytes(const SortOf& sort, std::int64_t kept) noexcept {
  return sort.lines.count() * quotient_up(sort.lines.length, kPiece) * kept * sort.entry_bytes();
}

}  // namespace

int SortOf::key_bits() const noexcept {
  if (order == KeyOrder::index) {
    // A failing index has all bits set; one bit more than the axis needs sorts it last.
    return std::min(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(axis_size))) + 1,
                    32);
  }
  return static_cast<int>(size_bytes(dtype)) * 8;
}

std::int64_t sort_scratch_bytes(const SortOf& sort, std::int64_t kept) noexcept {
  if (sort.lines.length <= kPiece) {
    return sort.order == KeyOrder::index
               ? sort.lines.count() * sort.lines.length * sort.entry_bytes()
               : 0;
  }
  return kept <= kFew ? 2 * pieces_bytes(sort, kept) : RadixMemory(sort).all();
}

Result<std::uint64_t> encode_sorted(const SortOf& sort,
                                    std::uint64_t scratch,
                                    KernelEncoder& encoder) {
  Sorter sorter(sort, encoder);
  if (sort.lines.length <= kPiece) {
    HEARTH_TRY_STATUS(sorter.pieces(
        {.sorted = scratch, .size = sort.lines.length, .kept = sort.lines.length}, kFromElements));
    return scratch;
  }
  const RadixMemory memory(sort);
  const std::uint64_t other = scratch + static_cast<std::uint64_t>(memory.entry_bytes);
  return radix(sort,
               scratch,
               other,
               other + static_cast<std::uint64_t>(memory.entry_bytes),
               sorter,
               encoder);
}

Status encode_first(const SortOf& sort,
                    std::int64_t kept,
                    const SortTarget& target,
                    std::uint64_t scratch,
                    KernelEncoder& encoder) {
  Sorter sorter(sort, encoder);
  SortBlock with{.target = target, .size = sort.lines.length, .kept = kept};
  if (with.size > kPiece && kept > kFew) {
    HEARTH_TRY(with.entries, encode_sorted(sort, scratch, encoder));
    encoder.barrier();
    return sorter.run(SortStep::take,
                      with,
                      0,
                      kTakeBody,
                      quotient_up(sort.lines.count() * kept, std::int64_t{kGroupThreads} * 4));
  }
  std::uint32_t flags = kFromElements;
  std::uint64_t other = scratch + static_cast<std::uint64_t>(pieces_bytes(sort, kept));
  while (with.size > kPiece) {
    with.sorted = scratch;
    HEARTH_TRY_STATUS(sorter.pieces(with, flags));
    encoder.barrier();
    with.entries = scratch;
    with.size = quotient_up(with.size, kPiece) * kept;
    flags = 0;
    std::swap(scratch, other);
  }
  return sorter.pieces(with, flags | kToValues);
}

}  // namespace hearth::gpu
