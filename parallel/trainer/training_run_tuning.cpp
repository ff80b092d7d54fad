// Trials of kernels at the beginning of a run (TrainerOptions::tune_seconds).
#include <hearth/parallel/training_run.hpp>

#include <hearth/runtime/runtime.hpp>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

namespace hearth {

// Devices of one kind share their results, so the first one spends most of the time.
std::string training::tune_devices(const Runtime& runtime,
                                   const std::vector<Device>& devices,
                                   std::chrono::nanoseconds limit,
                                   SourceLoc where) {
  if (runtime.autotune() < AutotuneLevel::minimal) {
    return fmt::format("kernels are not tuned: autotune is {}", detail::name(runtime.autotune()));
  }
  const Deadline deadline = Deadline::in(limit);
  TuneReport sum;
  for (const Device& device : devices) {
    const TuneReport report = runtime.tune(device, deadline.left(), where);
    sum.tuned_count += report.tuned_count;
    sum.improved_count += report.improved_count;
    sum.unclear_count += report.unclear_count;
    sum.left_count += report.left_count;
  }
  return "kernels: " + sum.to_string();
}

void TrainingRun::tune_once() {
  constexpr std::size_t kFirstSteps = 2;  // the kernels of later steps are known then
  if (is_tuned_ || options_.tune_seconds == 0 || step_times_.size() < kFirstSteps) {
    return;
  }
  is_tuned_ = true;
  console_.print_line(ports_.tune(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options_.tune_seconds))));
}

}  // namespace hearth
