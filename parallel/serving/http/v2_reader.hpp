// Reads the JSON part of an inference request. RapidJSON parses the text and calls the reader for
// each token, so no document is kept, and a refused token ends the parsing. Private to this room.
// Threads: any.
#pragma once

#include "v2_message.hpp"

#include <hearth/runtime/base/result.hpp>

#include <string_view>

namespace hearth::detail {

struct V2Limits {
  int max_tensors = 64;  ///< Most inputs, and most outputs.
};

/// Errors: bad_format for a text that is no JSON; invalid_argument for one that is no request. The
/// text names the field and the rule.
[[nodiscard]] Result<V2Request> read_v2_request(std::string_view text, const V2Limits& limits);

}  // namespace hearth::detail
