// StepTerms: the values that all steps of a trainer share. Private to parallel.
// A constant value that ranks share. Threads: any.
#pragma once

#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/precision.hpp>
#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/runtime/base/deadline.hpp>

namespace hearth {

struct StepTerms {
  BucketPlan plan;
  CoordinatorInbox coordinator;
  GradientClip clip = {};
  Precision precision = {};
  std::chrono::nanoseconds
      lane_limit;  ///< How long a lane waits for a bucket that it has lent, or for a decision.
  std::chrono::nanoseconds update_limit;  ///< How long the worker waits for the end of the step.
};

}  // namespace hearth
