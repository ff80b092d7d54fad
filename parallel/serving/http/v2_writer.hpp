// Writes answers of the KServe v2 protocol. Private to this room. Threads: any.
#pragma once

#include "v2_message.hpp"

#include <hearth/parallel/server_options.hpp>
#include <hearth/runtime/base/result.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hearth::detail {

struct V2Body {
  std::string bytes;
  std::optional<std::size_t> json_bytes = {};  ///< If binary tensors follow.
};

/// Writes an answer with the wanted outputs.
///
/// Errors: unsupported if an output has values that JSON cannot hold; internal if the model has
/// other outputs than its signature.
[[nodiscard]] Result<V2Body> write_v2_answer(const Answer& answer,
                                             std::string_view model,
                                             std::string_view id,
                                             const ServedSignature& signature,
                                             std::span<const WantedOutput> wanted);
[[nodiscard]] std::string write_v2_metadata(std::string_view model,
                                            std::uint64_t version,
                                            const ServedSignature& signature);
[[nodiscard]] std::string write_v2_server();
/// Writes `{"error": "..."}`.
[[nodiscard]] std::string write_v2_error(std::string_view text);
/// Writes `{"name": "...", "ready": true}`; `name` may be empty.
[[nodiscard]] std::string write_v2_ready(std::string_view name);
[[nodiscard]] std::string write_v2_live();

}  // namespace hearth::detail
