// Whether a type has visit(), which HEARTH_MODULE gives a struct. Header-internal.
// Threads: any.
#pragma once

#include <string>

namespace hearth::detail {

/// Accepts whatever visit() hands out.
struct AnyVisitor {
  template <class T>
  void operator()(const std::string& path, T& tensor) const;
};

template <class T>
concept HasVisit = requires(T& part, const std::string& prefix, AnyVisitor& visitor) {
  part.visit(prefix, visitor);
};

}  // namespace hearth::detail
