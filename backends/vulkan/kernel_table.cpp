#include "kernel_table.hpp"

#include <array>

namespace hearth::vulkan {
namespace {

// One entry for each kind, in the order of OpKind.
std::array<KernelRow, kOpKindCount> make_rows() noexcept {
  std::array<KernelRow, kOpKindCount> rows{};
  const auto set = [&rows](OpKind kind, KernelRow row) {
    rows[static_cast<std::size_t>(kind)] = row;
  };
  static_cast<void>(set);
  return rows;
}

}  // namespace

const KernelRow& kernel_row(OpKind kind) noexcept {
  static const std::array<KernelRow, kOpKindCount> kRows = make_rows();
  return kRows[static_cast<std::size_t>(kind)];
}

}  // namespace hearth::vulkan
