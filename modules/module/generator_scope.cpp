#include <hearth/modules/generator_scope.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/recompute.hpp>

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace hearth {
namespace {

struct CurrentGenerator final : detail::ContextAttachment {
  Generator* generator = nullptr;
  /// Used after the scope has ended, when checkpoint() recomputes with recorded numbers.
  Generator replayed;
};

// Devices use small keys, counted from 1. This one is "generato".
constexpr std::uint64_t kKey = 0x67656e657261746fU;

Generator* exchange_current(Generator* generator) {
  detail::ThreadContext& context = detail::current_context();
  auto* current = context.find<CurrentGenerator>(kKey);
  if (current == nullptr) {
    current = &context.attach(kKey, std::make_unique<CurrentGenerator>());
  }
  return std::exchange(current->generator, generator);
}

}  // namespace

GeneratorScope::GeneratorScope(Generator& generator) : previous_(exchange_current(&generator)) {}
GeneratorScope::~GeneratorScope() {
  exchange_current(previous_);
}

Generator& current_generator(std::string_view user, SourceLoc loc) {
  auto* current = detail::current_context().find<CurrentGenerator>(kKey);
  if (current != nullptr && current->generator == nullptr && is_recomputing()) {
    return current->replayed;
  }
  if (current == nullptr || current->generator == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: no generator: pass one to forward(), or open a "
                                          "GeneratorScope around it",
                                          user),
                      .location = loc});
  }
  return *current->generator;
}

}  // namespace hearth
