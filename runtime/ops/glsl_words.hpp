// Which names GLSL 4.60 keeps for itself, with the types that a custom kernel's extensions add: its
// specification's section 3.6; and which ones a custom kernel's text finds around it. Pure
// functions. Private to runtime. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

/// Whether nothing in a text of GLSL may have this name: a keyword, a type, a word that the
/// language keeps for later, or a name that begins with gl_ or GL_.
[[nodiscard]] bool is_glsl_word(std::string_view name);

/// Whether GLSL has a function of this name that takes one whole number, so that a text can have
/// none: what an input becomes.
[[nodiscard]] bool is_glsl_function(std::string_view name);

/// Whether the text around a custom kernel's has this word for itself (backends/vulkan/kernels):
/// tests/backends/custom_text_test.cpp holds that text against it.
[[nodiscard]] bool is_frame_word(std::string_view name);

/// Whether a macro of that text is replaced by something with this name in it, so that no number,
/// a macro too, can have it.
[[nodiscard]] bool is_macro_word(std::string_view name);

/// The names that stand there for an operand: x_size of x and its kin.
[[nodiscard]] std::vector<std::string> names_made_of(const std::string& operand, bool is_result);

}  // namespace hearth::detail
