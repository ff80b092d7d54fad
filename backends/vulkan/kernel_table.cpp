#include "kernel_table.hpp"

#include <array>

#include "kernels/movement.hpp"

namespace hearth::vulkan {
namespace {

// One entry for each kind, in the order of OpKind.
std::array<KernelRow, kOpKindCount> make_rows() noexcept {
  std::array<KernelRow, kOpKindCount> rows{};
  const auto set = [&rows](OpKind kind, KernelRow row) {
    rows[static_cast<std::size_t>(kind)] = row;
  };
  set(OpKind::copy, {.encode = encode_copy, .may_alias = copy_may_alias});
  set(OpKind::concat, {.encode = encode_concat});
  set(OpKind::slice_scatter, {.encode = encode_slice_scatter});
  return rows;
}

}  // namespace

const KernelRow& kernel_row(OpKind kind) noexcept {
  static const std::array<KernelRow, kOpKindCount> kRows = make_rows();
  return kRows[static_cast<std::size_t>(kind)];
}

}  // namespace hearth::vulkan
