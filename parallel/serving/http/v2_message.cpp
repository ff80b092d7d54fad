#include "v2_message.hpp"

#include <array>

namespace hearth::detail {
namespace {

// By the number of the DType.
constexpr std::array<std::string_view, kDTypeCount> kV2Names{
    "FP32", "FP64", "FP16", "BF16", "INT32", "INT64", "UINT8", "BOOL", "INT8"};

}  // namespace

std::string_view v2_name(DType dtype) noexcept {
  return kV2Names[static_cast<std::size_t>(dtype)];
}

std::optional<DType> v2_dtype(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kV2Names.size(); ++i) {
    if (kV2Names[i] == name) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

}  // namespace hearth::detail
