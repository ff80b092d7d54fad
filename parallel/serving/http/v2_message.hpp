// Messages of the KServe v2 protocol (Open Inference Protocol), as values. Private to this room.
// Threads: any.
#pragma once

#include <hearth/parallel/http_options.hpp>
#include <hearth/runtime/base/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

/// Header with the bytes of the JSON part before binary tensors.
inline constexpr std::string_view kInferenceHeader = "Inference-Header-Content-Length";

/// Returns the protocol's name of a type: "FP32".
[[nodiscard]] std::string_view v2_name(DType dtype) noexcept;
/// Returns the type with this name in the protocol; nullopt for types that Hearth does not have.
[[nodiscard]] std::optional<DType> v2_dtype(std::string_view name) noexcept;

/// An input as the request's JSON describes it. Its elements are in `bytes`, or follow the JSON.
struct V2Input {
  std::string name;
  std::optional<DType> dtype = {};
  std::optional<std::vector<std::int64_t>> shape = {};
  bool has_data = false;
  std::vector<std::byte> bytes = {};
  std::optional<std::uint64_t> binary_bytes = {};  ///< `binary_data_size`.
};

struct V2Output {
  std::string name;
  std::optional<bool> is_binary = {};  ///< `binary_data`.
};

struct V2Request {
  std::string id;
  std::vector<V2Input> inputs;
  std::vector<V2Output> outputs;
  bool binary_outputs = false;                   ///< `binary_data_output`.
  std::optional<std::uint64_t> timeout_us = {};  ///< `timeout`.
};

/// An output that the client requested.
struct WantedOutput {
  std::size_t index = 0;
  bool is_binary = false;
};

}  // namespace hearth::detail
