#include "device_peaks.hpp"

#include <hearth/autotune/duel.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/machine_load.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>

namespace hearth {
namespace {

// A copy of this size exceeds the caches of most machines: 32 MiB of results bypass a CPU's caches,
// and an H200's second level has 50 MB.
constexpr std::int64_t kHostBytes = std::int64_t{32} << 20;
constexpr std::int64_t kDeviceBytes = std::int64_t{64} << 20;

// Additions for each element, so that its bytes do not matter; and the elements of the first probe.
constexpr int kAdditions = 192;
constexpr std::int64_t kFirstElements = std::int64_t{1} << 14;

// A sample is long enough that launch and wait do not matter. On a host it is short enough that
// other programs leave some samples undisturbed.
constexpr double kHostRunSeconds = 3e-4;
constexpr double kDeviceRunSeconds = 2e-3;
constexpr double kLeastSeconds = 2e-4;
constexpr int kMostLaunches = 4096;
constexpr int kWarmLaunches = 16;
constexpr int kProbeLaunches = 4;
// After this time a kernel's samples end without a verdict. A quiet machine takes a tenth of it.
constexpr double kMostSeconds = 0.5;
// A GPU's clocks rise while it works.
constexpr double kWarmSeconds = 0.05;

// The first openings measure, up to this number.
constexpr std::uint64_t kMostOpenings = 4;

/// Stored format; the name follows.
struct KeptPeaks {
  DevicePeaks peaks;
  std::uint64_t openings = 0;
};

constexpr FileFormat kFormat{.magic = {'H', 'P', 'E', 'A', 'K', 'S', 0, 0}};

/// Each number is the sum of the two before it, so that the compiler can remove none.
Result<ExpressionRef> additions(std::string name, int count) {
  KernelBuilder builder({0});
  KernelValue last = builder.input(DType::f32, {AffineIndex{.terms = {{.axis = 0}}}});
  KernelValue sum = last + last;
  for (int i = 1; i < count; ++i) {
    last = std::exchange(sum, last + sum);
  }
  builder.output(sum);
  return make_expression(std::move(name), builder.take());
}

/// Time of a kernel by its low quantile. If the machine was busy, its shortest sample: at least the
/// kernel's own time.
struct PeakTime {
  double seconds = 0;
  bool is_clean = false;
};

class PeakRunner final {
 public:
  explicit PeakRunner(Backend& backend) noexcept
      : backend_(backend),
        run_seconds_(backend.info().runs_inline ? kHostRunSeconds : kDeviceRunSeconds) {}
  PeakRunner(const PeakRunner&) = delete;
  PeakRunner& operator=(const PeakRunner&) = delete;
  /// Afterwards the backend may only be destroyed.
  ~PeakRunner() {
    backend_.drain();  // kernels may still run after a failure
    for (const Page& page : pages_) {
      backend_.pages().free_page(page);
    }
  }

  /// Allocates two buffers, and writes to them so that their memory is mapped.
  Status make_buffers(std::int64_t bytes) {
    for (int i = 0; i < 2; ++i) {
      HEARTH_TRY(const Page page, backend_.pages().allocate_page(bytes));
      pages_.push_back(page);
    }
    return {};
  }

  /// Runs the kernel for this number of seconds.
  Status warm(const Expression& kernel, std::int64_t elements, double seconds) {
    double done = 0;
    for (int runs = 0; done < seconds && runs < kMostLaunches; ++runs) {
      HEARTH_TRY(const double taken, run(kernel, elements, kWarmLaunches));
      done += taken;
    }
    return {};
  }

  /// Returns the least number of elements, of at most this, for which a launch is long enough.
  Result<std::int64_t> elements_of_launch(const Expression& kernel, std::int64_t most) {
    for (std::int64_t elements = std::min(kFirstElements, most);; elements *= 4) {
      HEARTH_TRY_STATUS(run(kernel, elements, 2).status());  // compiles, and writes both buffers
      HEARTH_TRY(const double taken, run(kernel, elements, kProbeLaunches));
      if (taken >= kProbeLaunches * kLeastSeconds || elements * 4 > most) {
        return elements;
      }
    }
  }

  /// Returns the kernel's time for this number of elements.
  Result<PeakTime> time(const Expression& kernel, std::int64_t elements) {
    HEARTH_TRY_STATUS(run(kernel, elements, 2).status());  // compiles, and writes both buffers
    HEARTH_TRY(const int launches, launches_of_sample(kernel, elements));
    detail::Duel duel({.limits = {.least_wall = nanoseconds_of(run_seconds_ / 2)}});
    double best = 0;
    double spent = 0;
    while (!duel.is_over() && spent < kMostSeconds) {  // against itself
      const detail::MachineLoad before = detail::MachineLoad::now();
      HEARTH_TRY(const double taken, run(kernel, elements, launches));
      const std::chrono::duration<double> waited =
          detail::MachineLoad::now().waited - before.waited;
      duel.add({.wall = nanoseconds_of(taken),
                .run_count = launches,
                .pressure = static_cast<float>(std::min(1.0, waited.count() / taken)),
                .source = backend_.info().runs_inline ? detail::SampleSource::host_crew
                                                      : detail::SampleSource::device});
      best = best == 0 ? taken / launches : std::min(best, taken / launches);
      spent += taken;
    }
    const detail::Judgement& found = duel.judgement();
    if (!duel.is_over() || found.verdict != detail::Verdict::same) {
      return PeakTime{.seconds = best, .is_clean = false};
    }
    return PeakTime{.seconds = 1e-9 * std::min(found.incumbent.low, found.challenger.low).count(),
                    .is_clean = true};
  }

 private:
  static std::chrono::nanoseconds nanoseconds_of(double seconds) noexcept {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * seconds));
  }

  /// Returns the number of launches that take run_seconds_.
  Result<int> launches_of_sample(const Expression& kernel, std::int64_t elements) {
    for (int launches = 1;; launches *= 2) {
      HEARTH_TRY(const double taken, run(kernel, elements, launches));
      if (taken <= 0) {
        return Error{.code = ErrorCode::invalid_argument,
                     .text = fmt::format("peaks of {}: this thread's clock stands still",
                                         backend_.info().name)};
      }
      if (taken >= run_seconds_ || launches >= kMostLaunches) {
        return launches;
      }
    }
  }

  /// Runs the kernel from one buffer to the other and back.
  Result<double> run(const Expression& kernel, std::int64_t elements, int launches) {
    const detail::Layout layout(Shape{elements});
    OpRecord record;
    record.kind = OpKind::expression;
    record.input_count = 1;
    record.output_count = 1;
    record.operands[0].dtype = DType::f32;
    record.operands[1].dtype = DType::f32;
    const auto begin = detail::current_context().clock().now();
    TimelinePoint last;
    for (int i = 0; i < launches; ++i) {
      const auto from = static_cast<std::size_t>(i % 2);
      const TensorView input{.data = pages_[from].data, .layout = &layout};
      const TensorView output{.data = pages_[1 - from].data, .layout = &layout};
      const Launch launch{.call = {.op = OpView(record, nullptr),
                                   .inputs = {&input, 1},
                                   .outputs = {&output, 1},
                                   .expression = &kernel}};
      const Issue issue = backend_.submit({&launch, 1}, {});
      HEARTH_TRY_STATUS(issue.status);
      last = issue.point;
    }
    if (!last.is_done()) {
      HEARTH_TRY_STATUS(backend_.flush());
      HEARTH_TRY_STATUS(backend_.wait({&last, 1}, Deadline::in(kDefaultWait)));
    }
    return std::chrono::duration<double>(detail::current_context().clock().now() - begin).count();
  }

  Backend& backend_;
  const double run_seconds_;
  std::vector<Page> pages_;
};

Result<std::filesystem::path> file_of(const std::string& name) {
  HEARTH_TRY(std::filesystem::path folder, cache_dir());
  const std::uint64_t hash = xxh64(std::as_bytes(std::span(name)));
  return folder / "peaks" / fmt::format("{:016x}", hash);
}

Status write_peaks(const std::string& name, const KeptPeaks& kept) {
  HEARTH_TRY(const std::filesystem::path file, file_of(name));
  HEARTH_TRY_STATUS(make_folder(file.parent_path()));
  std::vector<std::byte> bytes(sizeof kept + name.size());
  std::memcpy(bytes.data(), &kept, sizeof kept);
  std::memcpy(bytes.data() + sizeof kept, name.data(), name.size());
  return write_cache_file(file, kFormat, bytes);
}

/// Reads the stored peaks. 0 openings: there are none.
KeptPeaks read_peaks(const std::string& name) {
  KeptPeaks kept;
  const Result<std::filesystem::path> file = file_of(name);
  if (!file.has_value()) {
    return kept;
  }
  const Result<std::vector<std::byte>> bytes = read_checked_file(file.value(), kFormat);
  const std::span<const std::byte> own = std::as_bytes(std::span(name));
  if (bytes.has_value() && bytes.value().size() == sizeof kept + own.size() &&
      std::ranges::equal(std::span(bytes.value()).subspan(sizeof kept), own)) {
    std::memcpy(&kept, bytes.value().data(), sizeof kept);
  }
  return kept;
}

/// Raises each rate to that of `now`, if it is higher: other programs only ever lower a rate.
void raise(DevicePeaks& kept, const DevicePeaks& now) noexcept {
  kept.copy_bytes_per_second = std::max(kept.copy_bytes_per_second, now.copy_bytes_per_second);
  kept.additions_per_second = std::max(kept.additions_per_second, now.additions_per_second);
}

/// Whether the result can be stored. Otherwise each program would measure at its start.
bool may_be_kept(const std::string& name) {
  const Result<std::filesystem::path> file = file_of(name);
  return file.has_value() && make_folder(file.value().parent_path()).has_value() &&
         check_writable(file.value()).has_value();
}

std::int64_t buffer_bytes(bool is_host) noexcept {
  return is_host ? kHostBytes : kDeviceBytes;
}

}  // namespace

// Phases: two buffers; the copying kernel over all elements; the adding kernel over as many as make
// a launch long enough.
Result<MeasuredPeaks> measure_peaks(Backend& backend, std::int64_t most_bytes) {
  const std::int64_t bytes = buffer_bytes(backend.info().runs_inline);
  if (most_bytes < 2 * bytes) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = fmt::format("peaks of {}: a measurement takes {} bytes, of {} that it may",
                                     backend.info().name,
                                     2 * bytes,
                                     most_bytes)};
  }
  PeakRunner runner(backend);
  HEARTH_TRY_STATUS(runner.make_buffers(bytes));
  const std::int64_t all = bytes / static_cast<std::int64_t>(sizeof(float));
  HEARTH_TRY(const ExpressionRef copy, additions("peak_copy", 1));
  HEARTH_TRY(const ExpressionRef chain, additions("peak_additions", kAdditions));
  if (!backend.info().runs_inline) {
    HEARTH_TRY_STATUS(runner.warm(*chain, all, kWarmSeconds));
  }
  HEARTH_TRY(const PeakTime copy_time, runner.time(*copy, all));
  HEARTH_TRY(const std::int64_t elements, runner.elements_of_launch(*chain, all));
  HEARTH_TRY(const PeakTime chain_time, runner.time(*chain, elements));
  return MeasuredPeaks{
      .peaks = {.copy_bytes_per_second = static_cast<double>(bytes) / copy_time.seconds,
                .additions_per_second =
                    static_cast<double>(elements) * kAdditions / chain_time.seconds},
      .is_clean = copy_time.is_clean && chain_time.is_clean};
}

std::optional<DevicePeaks> kept_peaks(const std::string& name) {
  const KeptPeaks kept = read_peaks(name);
  return kept.openings > 0 ? std::optional(kept.peaks) : std::nullopt;
}

DevicePeaks PeakSubject::part_of(const DevicePeaks& whole) const noexcept {
  return {.copy_bytes_per_second = whole.copy_bytes_per_second * part,
          .additions_per_second = whole.additions_per_second * part};
}

Result<MeasuredPeaks> PeakSubject::measure() const {
  HEARTH_TRY(const std::unique_ptr<Backend> backend, open());
  return measure_peaks(*backend, most_bytes);
}

Result<DevicePeaks> PeakSubject::measure_now() const {
  HEARTH_TRY(const MeasuredPeaks measured, measure());
  KeptPeaks kept = read_peaks(name);
  raise(kept.peaks, measured.peaks);
  // After a disturbed measurement, openings measure again.
  kept.openings = measured.is_clean ? kMostOpenings : std::max<std::uint64_t>(kept.openings, 1);
  HEARTH_TRY_STATUS(write_peaks(name, kept));
  return part_of(kept.peaks);
}

std::optional<DevicePeaks> PeakSubject::known(detail::Log& log) const {
  if (!open) {
    return {};
  }
  KeptPeaks kept = read_peaks(name);
  if (is_automatic && kept.openings < kMostOpenings && most_bytes >= 2 * kHostBytes &&
      may_be_kept(name)) {
    const Result<MeasuredPeaks> measured = measure();
    if (measured.has_value()) {
      const DevicePeaks& now = measured.value().peaks;
      raise(kept.peaks, now);
      ++kept.openings;
      const Status written = write_peaks(name, kept);
      log.debug([&] {
        return fmt::format("{}: {}{}",
                           name,
                           now.to_string(),
                           written.has_value() ? "" : "; not kept: " + written.error().to_string());
      });
    } else {
      log.warn(fmt::format("the peaks of {}: {}", name, measured.error().to_string()));
    }
  }
  return kept.openings > 0 ? std::optional(part_of(kept.peaks)) : std::nullopt;
}

bool is_build_of_full_speed() noexcept {
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#elif defined(__has_feature)
  return !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||
           __has_feature(memory_sanitizer));
#else
  return true;
#endif
}

}  // namespace hearth
