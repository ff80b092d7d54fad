// Reads public headers as text: what functions and structs they declare, and what their comments
// say. It knows the layout that clang-format gives them and nothing of C++ besides.
// Values. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::docs {

/// A function that returns tensors.
struct DeclaredFunction {
  std::string name;
  std::vector<std::string> parameters;  ///< Their names; without the source location.
  std::string section;                  ///< Of the header: "creation".
  std::string doc;                      ///< The first sentence of its comment; may be empty.
};
/// All of a header, overloads too, in its order.
[[nodiscard]] std::vector<DeclaredFunction> functions_in(std::string_view header);

struct DeclaredField {
  std::string name;
  std::string value;  ///< What it is when nothing is said; empty: nothing.
  std::string doc;
};
struct DeclaredStruct {
  std::string name;
  std::string doc;                    ///< The comment above it.
  std::vector<std::string> lines;     ///< Its body.
  std::vector<DeclaredField> fields;  ///< Those of its Config where it has one, else its own.
  std::string config;                 ///< `using Config = ...`, or empty.
};
/// All structs at namespace scope.
[[nodiscard]] std::vector<DeclaredStruct> structs_in(std::string_view header);

/// What stands behind "Shapes:" in the comments of these lines, up to the next section; the first.
[[nodiscard]] std::string shapes_in(const std::vector<std::string>& lines);
[[nodiscard]] std::string shapes_in(std::string_view doc);

/// The names in HEARTH_MODULE(Name, ...) of a header.
[[nodiscard]] std::vector<std::string> modules_in(std::string_view header);

}  // namespace hearth::docs
