#include <hearth/modules/dataset.hpp>

#include <hearth/runtime/base/error.hpp>

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>
#include <utility>

namespace hearth {

const HostArray& Examples::at(std::string_view name, SourceLoc loc) const {
  if (name == "inputs") {
    return inputs;
  }
  if (name == "targets") {
    return targets;
  }
  std::string names = "inputs, targets";
  for (const NamedArray& named : more) {
    if (named.name == name) {
      return named.array;
    }
    names += ", " + named.name;
  }
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("Examples: there is no '{}'; there are {}", name, names),
                    .location = loc});
}

HostArray& Examples::at(std::string_view name, SourceLoc loc) {
  return const_cast<HostArray&>(std::as_const(*this).at(name, loc));
}

Examples Dataset::read_in_epoch(std::span<const std::int64_t> indices,
                                std::int64_t /*epoch*/) const {
  return read(indices);
}

std::string Dataset::name() const {
  const char* const mangled = typeid(*this).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : mangled;
}

}  // namespace hearth
