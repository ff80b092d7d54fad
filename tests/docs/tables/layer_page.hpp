// The page of layers: options and shapes from the headers, tensors from an instance.
// Threads: one.
#pragma once

#include <map>
#include <string>

#include <hearth/runtime/device.hpp>

namespace hearth::docs {

/// The text of the page. `headers`: the texts of modules/*.hpp and of the headers of ops, by name.
///
/// Errors: std::runtime_error naming a module without an instance, and an instance without its
/// module.
[[nodiscard]] std::string layer_page(const Device& device,
                                     const std::map<std::string, std::string>& headers);

}  // namespace hearth::docs
