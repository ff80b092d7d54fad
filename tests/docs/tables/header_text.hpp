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
  std::vector<std::string> parameters;  ///< "axis = -1"; without the source location.
  std::string types;                    ///< The parameters as they are written.
  std::string section;                  ///< Of the header: "creation".
  std::string doc;                      ///< The first sentence of its comment; may be empty.
};
/// All of a header, overloads too, in its order.
[[nodiscard]] std::vector<DeclaredFunction> functions_in(std::string_view header);

struct DeclaredField {
  std::string name;
  std::string type;
  std::string value;  ///< What it is when nothing is said; empty: nothing.
  std::string doc;    ///< The comments above and behind it.
};
struct DeclaredStruct {
  std::string name;
  std::string doc = {};                    ///< The comment above it.
  std::vector<std::string> lines = {};     ///< Its body.
  std::vector<DeclaredField> fields = {};  ///< Of its Config, else its own; a class has no other.
  std::string config = {};                 ///< `using Config = ...`, or empty.
  bool has_config = false;                 ///< `struct Config` in its body.
  bool is_class = false;
};
/// All structs and classes at namespace scope, but for those in `detail`.
[[nodiscard]] std::vector<DeclaredStruct> structs_in(std::string_view header);

struct DeclaredEnum {
  std::string name;
  std::string doc;
  std::vector<DeclaredField> enumerators;  ///< Without types and values.
};
/// All `enum class` at namespace scope, but for those in `detail`.
[[nodiscard]] std::vector<DeclaredEnum> enums_in(std::string_view header);

/// What stands behind "Shapes:" in the comments of these lines, up to the next section; the first.
[[nodiscard]] std::string shapes_in(const std::vector<std::string>& lines);
[[nodiscard]] std::string shapes_in(std::string_view doc);

/// The names in HEARTH_MODULE(Name, ...) of a header.
[[nodiscard]] std::vector<std::string> modules_in(std::string_view header);

}  // namespace hearth::docs
