// What a handler may know of its node: name, op, version and attributes, decoded once at load.
// A value. Threads: any, const.
#pragma once

#include "modules/onnx/values/host_array.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hearth::onnx {

struct Plan;

struct Attribute {
  std::string name;
  std::variant<std::int64_t,
               double,
               std::string,
               std::vector<std::int64_t>,
               std::vector<double>,
               std::vector<std::string>,
               std::shared_ptr<const HostArray>,
               std::shared_ptr<const Plan>,
               TypeProto>
      value;
};

struct NodeInfo {
  std::string name;  ///< The node's own name or, without one, that of its first output.
  std::string op;
  std::string domain;
  std::int64_t opset = 0;
  std::size_t input_count = 0;
  std::vector<bool> is_wanted = {};  ///< For each output, whether anything uses it.
  std::vector<Attribute> attributes = {};

  /// Returns the attribute's value as a T; null if it is absent or has another type.
  template <class T>
  [[nodiscard]] const T* attribute(std::string_view wanted) const noexcept {
    for (const Attribute& each : attributes) {
      if (each.name == wanted) {
        return std::get_if<T>(&each.value);
      }
    }
    return nullptr;
  }
  [[nodiscard]] std::int64_t integer(std::string_view wanted, std::int64_t otherwise) const {
    const auto* const value = attribute<std::int64_t>(wanted);
    return value == nullptr ? otherwise : *value;
  }
  [[nodiscard]] double real(std::string_view wanted, double otherwise) const {
    const auto* const value = attribute<double>(wanted);
    return value == nullptr ? otherwise : *value;
  }
  [[nodiscard]] std::string text(std::string_view wanted, std::string_view otherwise) const {
    const auto* const value = attribute<std::string>(wanted);
    return value == nullptr ? std::string(otherwise) : *value;
  }
  [[nodiscard]] const std::vector<std::int64_t>* integers(std::string_view wanted) const noexcept {
    return attribute<std::vector<std::int64_t>>(wanted);
  }
  [[nodiscard]] bool has(std::string_view wanted) const noexcept {
    for (const Attribute& each : attributes) {
      if (each.name == wanted) {
        return true;
      }
    }
    return false;
  }
};

}  // namespace hearth::onnx
