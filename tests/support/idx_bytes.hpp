// The bytes of an IDX file, the format of MNIST. Pure. Threads: any.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::testing {

/// A header with these sizes, followed by values of one byte.
[[nodiscard]] inline std::vector<std::uint8_t> idx_bytes(const std::vector<std::uint32_t>& dims,
                                                         const std::vector<std::uint8_t>& values) {
  std::vector<std::uint8_t> bytes{0, 0, 8, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) {
      bytes.push_back(static_cast<std::uint8_t>(dim >> shift));
    }
  }
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

}  // namespace hearth::testing
