// Functions of strings. All are HostHandlers (op_row.hpp). Stateless. Threads: any.
#pragma once

#include "modules/onnx/values/call.hpp"

namespace hearth::onnx {

/// StringNormalizer: removes stop words and changes the case. Letters are those of ASCII.
[[nodiscard]] bool normalise_strings(Call& call);
/// TfIdfVectorizer: counts n-grams of strings or integers.
[[nodiscard]] bool count_ngrams(Call& call);
[[nodiscard]] bool concat_strings(Call& call);
[[nodiscard]] bool split_strings(Call& call);

}  // namespace hearth::onnx
