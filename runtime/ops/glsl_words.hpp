// Which names GLSL 4.60 keeps for itself, with the types that a custom kernel's extensions add: its
// specification's section 3.6. A pure function. Private to runtime. Threads: any.
#pragma once

#include <string_view>

namespace hearth::detail {

/// Whether nothing in a text of GLSL may have this name: a keyword, a type, a word that the
/// language keeps for later, or a name that begins with gl_.
[[nodiscard]] bool is_glsl_word(std::string_view name);

/// Whether GLSL has a function of this name that takes one whole number, so that a text can have
/// none: what an input becomes.
[[nodiscard]] bool is_glsl_function(std::string_view name);

}  // namespace hearth::detail
