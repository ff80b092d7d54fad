#include "kernel_table.hpp"

#include "kernels/cross_entropy.hpp"
#include "kernels/reduction.hpp"
#include "kernels/softmax.hpp"

#include <array>

namespace hearth::vulkan {
namespace {

// One entry for each kind, in the order of OpKind.
std::array<KernelRow, kOpKindCount> make_rows() noexcept {
  std::array<KernelRow, kOpKindCount> rows{};
  const auto set = [&rows](OpKind kind, KernelRow row) {
    rows[static_cast<std::size_t>(kind)] = row;
  };
  for (const OpKind kind : {OpKind::reduce_sum,
                            OpKind::reduce_mean,
                            OpKind::reduce_max,
                            OpKind::reduce_min,
                            OpKind::reduce_prod,
                            OpKind::argmax,
                            OpKind::argmin}) {
    set(kind, {.encode = encode_reduction, .supports = supports_reduction});
  }
  for (const OpKind kind : {OpKind::softmax,
                            OpKind::log_softmax,
                            OpKind::softmax_backward,
                            OpKind::log_softmax_backward}) {
    set(kind,
        {.encode = encode_softmax, .supports = supports_softmax, .may_alias = softmax_may_alias});
  }
  set(OpKind::cross_entropy, {.encode = encode_cross_entropy, .supports = supports_cross_entropy});
  set(OpKind::cross_entropy_backward,
      {.encode = encode_cross_entropy_backward,
       .supports = supports_cross_entropy,
       .may_alias = cross_entropy_may_alias});
  return rows;
}

}  // namespace

const KernelRow& kernel_row(OpKind kind) noexcept {
  static const std::array<KernelRow, kOpKindCount> kRows = make_rows();
  return kRows[static_cast<std::size_t>(kind)];
}

}  // namespace hearth::vulkan
