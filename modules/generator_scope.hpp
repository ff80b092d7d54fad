// GeneratorScope: which generator the random layers of a forward pass draw from, when the call does
// not say so: `dropout.forward(x, mode)`. A Generator is a value that belongs to the code that runs
// a stream (a training loop, a worker), so it is named on that thread and kept out of models.
// Threads: a scope lives and dies on one thread; scopes nest. Invariant: the generator outlives the
// scope.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/generator.hpp>

#include <string_view>

namespace hearth {

/// Makes `generator` the calling thread's current one until the scope ends.
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
/// Errors: ArgumentError outside of any scope, naming `user`.
[[nodiscard]] Generator& current_generator(std::string_view user,
                                           SourceLoc loc = SourceLoc::current());

}  // namespace hearth
