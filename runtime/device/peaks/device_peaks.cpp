#include "device_peaks.hpp"

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

// Additions for each element, so that its bytes do not matter; and the initial number of elements.
constexpr int kAdditions = 192;
constexpr std::int64_t kFirstElements = std::int64_t{1} << 18;

// A run is long enough that launch and wait do not matter. On a host it is short enough that other
// programs leave some runs undisturbed. The best run counts, because other programs only ever slow
// a run down.
constexpr double kHostRunSeconds = 3e-4;
constexpr double kDeviceRunSeconds = 2e-3;
constexpr double kLeastSeconds = 2e-4;
constexpr int kRuns = 12;
constexpr int kMostLaunches = 4096;
constexpr int kWarmLaunches = 16;
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

  /// Returns the kernel's time for this number of elements, in seconds.
  Result<double> seconds(const Expression& kernel, std::int64_t elements) {
    HEARTH_TRY_STATUS(run(kernel, elements, 2).status());  // compiles, and writes both buffers
    double best = 0;
    int launches = 1;
    for (int runs = 0; runs < kRuns;) {
      HEARTH_TRY(const double taken, run(kernel, elements, launches));
      if (taken <= 0) {
        return Error{.code = ErrorCode::invalid_argument,
                     .text = fmt::format("peaks of {}: this thread's clock stands still",
                                         backend_.info().name)};
      }
      if (taken < run_seconds_ && launches < kMostLaunches) {
        launches *= 2;
        continue;
      }
      const double each = taken / launches;
      best = runs == 0 ? each : std::min(best, each);
      ++runs;
    }
    return best;
  }

 private:
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

// Phases: two buffers; the copying kernel over all elements; the adding kernel over enough elements
// for a measurable time.
Result<DevicePeaks> measure_peaks(Backend& backend, std::int64_t most_bytes) {
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
  HEARTH_TRY(const double copy_seconds, runner.seconds(*copy, all));
  std::int64_t elements = kFirstElements;
  HEARTH_TRY(double chain_seconds, runner.seconds(*chain, elements));
  while (chain_seconds < kLeastSeconds && elements * 4 <= all) {
    elements *= 4;
    HEARTH_TRY(chain_seconds, runner.seconds(*chain, elements));
  }
  return DevicePeaks{
      .copy_bytes_per_second = static_cast<double>(bytes) / copy_seconds,
      .additions_per_second = static_cast<double>(elements) * kAdditions / chain_seconds};
}

std::optional<DevicePeaks> kept_peaks(const std::string& name) {
  const KeptPeaks kept = read_peaks(name);
  return kept.openings > 0 ? std::optional(kept.peaks) : std::nullopt;
}

DevicePeaks PeakSubject::part_of(const DevicePeaks& whole) const noexcept {
  return {.copy_bytes_per_second = whole.copy_bytes_per_second * part,
          .additions_per_second = whole.additions_per_second * part};
}

Result<DevicePeaks> PeakSubject::measure() const {
  HEARTH_TRY(const std::unique_ptr<Backend> backend, open());
  return measure_peaks(*backend, most_bytes);
}

Result<DevicePeaks> PeakSubject::measure_now() const {
  HEARTH_TRY(const DevicePeaks peaks, measure());
  HEARTH_TRY_STATUS(write_peaks(name, {.peaks = peaks, .openings = kMostOpenings}));
  return part_of(peaks);
}

std::optional<DevicePeaks> PeakSubject::known(detail::Log& log) const {
  if (!open) {
    return {};
  }
  KeptPeaks kept = read_peaks(name);
  if (is_automatic && kept.openings < kMostOpenings && most_bytes >= 2 * kHostBytes &&
      may_be_kept(name)) {
    const Result<DevicePeaks> measured = measure();
    if (measured.has_value()) {
      const DevicePeaks& now = measured.value();
      kept.peaks = {.copy_bytes_per_second =
                        std::max(kept.peaks.copy_bytes_per_second, now.copy_bytes_per_second),
                    .additions_per_second =
                        std::max(kept.peaks.additions_per_second, now.additions_per_second)};
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
