// GeneratorScope: the generator that random layers use when a forward pass names none, as in
// `dropout.forward(x, mode)`. A Generator belongs to the code that runs a stream (a training loop,
// a worker). So it is set on that thread and is not part of a model.
// Threads: a scope is created and destroyed on one thread; scopes nest.
// Invariant: the generator outlives the scope.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/generator.hpp>

#include <string_view>

namespace hearth {

/// Makes `generator` current on the calling thread until the scope ends.
class [[nodiscard]] GeneratorScope final {
 public:
  explicit GeneratorScope(Generator& generator);
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;
  ~GeneratorScope();

 private:
  Generator* previous_;
};

/// The generator of the calling thread's innermost scope.
///
/// Errors: ArgumentError naming `user`, outside of any scope.
[[nodiscard]] Generator& current_generator(std::string_view user,
                                           SourceLoc loc = SourceLoc::current());

}  // namespace hearth
