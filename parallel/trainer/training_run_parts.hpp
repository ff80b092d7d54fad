// Functions that the sources of TrainingRun share. Private to parallel. Stateless. Threads: any.
#pragma once

#include <hearth/modules/safetensors.hpp>
#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/thread_context.hpp>

#include <string>
#include <utility>

namespace hearth::training {

inline constexpr const char* kStateNote = "trainer.state";
inline constexpr const char* kStateFile = "training.safetensors";

[[noreturn]] inline void refuse(std::string text, SourceLoc where) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "Trainer: " + std::move(text),
                    .op = "Trainer",
                    .location = where});
}

inline void require_written(const Status& status, SourceLoc where) {
  if (!status.has_value()) {
    hearth::detail::throw_file_error(status.error(), where);
  }
}

inline hearth::detail::TimePoint now() {
  return detail::current_context().clock().now();
}

}  // namespace hearth::training
