// Matches an inference request with a model's signature. Private to this room. Threads: any.
#pragma once

#include "v2_message.hpp"

#include <hearth/parallel/request_input.hpp>
#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hearth::detail {

/// A request that a ModelServer can take.
struct MatchedRequest {
  std::vector<RequestInput> inputs;  ///< In the order of the signature.
  std::vector<WantedOutput> outputs;
};

/// `binary`: the tensors behind the JSON, which `owner` keeps alive.
///
/// Errors: invalid_argument, shape_mismatch, dtype_mismatch; the text names the input and the rule.
[[nodiscard]] Result<MatchedRequest> match_v2_request(V2Request request,
                                                      std::span<const std::byte> binary,
                                                      const std::shared_ptr<const void>& owner,
                                                      const ServedSignature& signature);

}  // namespace hearth::detail
