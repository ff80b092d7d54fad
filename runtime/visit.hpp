// HasVisit: whether a type has visit(), which HEARTH_MODULE defines, and the compiler's message if
// it is missing. Header-internal. Threads: any.
#pragma once

#include <string>

namespace hearth::detail {

/// A visitor that accepts every argument of visit().
struct AnyVisitor {
  template <class T>
  void operator()(const std::string& path, T& tensor) const;
};

template <class T>
concept HasVisit = requires(T& part, const std::string& prefix, AnyVisitor& visitor) {
  part.visit(prefix, visitor);
};

/// Rejects a type that is no module at compile time, with a readable message.
template <class Model>
constexpr bool refuse_no_module() {
  static_assert(sizeof(Model) == 0,
                "this model is no module: name its members with HEARTH_MODULE(Type, "
                "members...) in the public part of its struct");
  return true;
}

}  // namespace hearth::detail
