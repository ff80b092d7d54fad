// The backend seam: the interface that a device type implements. One Backend object belongs to one
// device and is driven by the device actor.
// Threads: owner only (the holder of the device's token), except info(), pinned_bytes() and wait().
// Work runs on physical streams. Ops run on kOpStream, in the order of their submits wherever their
// bytes overlap. Copies run on the other streams. Work waits for another stream only where `after`
// names a point of that stream. Points of one stream complete in order.
// An inline backend (BackendInfo::runs_inline) completes all work before a call returns, and
// returns points that are done.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hearth/backends/kernel.hpp>
#include <hearth/backends/scratch_memory.hpp>
#include <hearth/memory/page_provider.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

struct BackendInfo {
  std::string name;         ///< "cpu:0"
  std::string description;  ///< "2 cores of ..., avx512, OpenBLAS 0.3.21 (pthread build)"
  /// Whether work runs on the submitting thread. If so, the device may lend its token to a reader,
  /// which cannot interrupt a kernel; false where a kernel can hang.
  bool runs_inline = true;
  /// Whether the host may access the device's memory where no work uses it.
  bool has_host_memory = true;
  int core_count = 1;
  /// Size of the device's own memory, the base of the default budget; 0 if the device uses host
  /// memory.
  std::int64_t memory_bytes = 0;
  /// Key of the stored speed measurements that tapes use for their decisions. Devices of one name
  /// are equally fast; host devices are equally fast per core. Empty: no measurements are kept.
  std::string peaks_name = {};
  /// Number of error cells; 0 means no limit.
  std::uint32_t most_cells = 0;
  bool computes = true;  ///< false: results are undefined (a sim that models time alone).
  /// false: every op runs as a separate kernel, even where fusion is enabled. An oracle must not
  /// share the errors of fused groups.
  bool takes_groups = true;
};

/// The physical streams of a device, numbered below kMaxPhysicalStreams.
inline constexpr std::uint8_t kOpStream = 0;
inline constexpr std::uint8_t kUploadStream = 1;
inline constexpr std::uint8_t kDownloadStream = 2;

/// The completion of one piece of a stream's work and of all work before it. Value 0 is always
/// done.
struct TimelinePoint {
  std::uint64_t value = 0;
  std::uint8_t stream = kOpStream;

  [[nodiscard]] bool is_done() const noexcept { return value == 0; }
  friend bool operator==(const TimelinePoint&, const TimelinePoint&) = default;
};

/// The accepted part of a copy: its first bytes, possibly all.
struct CopyPart {
  TimelinePoint point = {};    ///< Completion of this part.
  std::size_t size_bytes = 0;  ///< 0 of a non-empty copy: no room before `point`.
};

/// A device word in which a kernel records a failure at run time, for later work and for the host.
/// 0 means none. The device's runtime assigns the numbers from 1 and reuses them.
using ErrorCell = std::uint32_t;

/// One kernel of a submit. Borrowed until submit() returns.
struct Launch {
  KernelCall call;
  /// Receives a failure at run time; the cell is clear when the kernel begins. Inline backends
  /// report a failure in the status of submit() instead.
  ErrorCell cell = 0;
  /// The kernel's results take effect only if none of these cells holds a failure when it begins.
  /// Otherwise output i receives the elements of input keeps[i], which has the same size.
  std::span<const ErrorCell> guards = {};
  std::span<const std::int8_t> keeps = {};
  /// Allows the backend to refuse the launch while its kernel compiles (Issue::is_compiling). The
  /// caller has other kernels for the same work.
  bool may_come_later = false;
  /// Number of this launch in take_launch_times(); 0 if its time is not needed.
  std::uint32_t timed_as = 0;
};

/// Outcome of a submit. The first `issued` launches are running or have run, up to `point`. Launch
/// number `issued`, if it exists, has `status`; later launches were not examined.
struct Issue {
  TimelinePoint point = {};
  std::uint32_t issued = 0;
  Status status = {};
  /// Whether launch number `issued` may have written memory before it failed. A backend that can
  /// exclude this sets false: the op then counts as never tried, and its in-place inputs are
  /// intact.
  bool may_have_begun = true;
  /// Launch number `issued` was refused because its kernel is being compiled and
  /// Launch::may_come_later is set.
  bool is_compiling = false;
};

/// Shared ownership of host memory. Threads: values.
struct HostBytes {
  std::shared_ptr<std::byte> first = {};
  std::size_t size = 0;

  [[nodiscard]] std::span<std::byte> span() const noexcept { return {first.get(), size}; }
  explicit operator bool() const noexcept { return first != nullptr; }
  /// Allocates ordinary memory, uninitialised.
  [[nodiscard]] static HostBytes make(std::size_t size) {
    return {std::shared_ptr<std::byte>(new std::byte[size], std::default_delete<std::byte[]>()),
            size};
  }
};

/// Kernels that a backend has compiled since it was opened.
struct CompileCounts {
  std::uint64_t kernels = 0;   ///< Kernels built by the driver or loaded from the disk cache.
  std::uint64_t compiled = 0;  ///< The part of `kernels` that was in no disk cache.
};

/// Execution time of a launch: device timestamps, converted to the host's steady clock to within
/// some ten microseconds. A launch that ran in parts has one entry for each part.
struct LaunchTime {
  std::uint32_t number = 0;  ///< Launch::timed_as.
  std::chrono::nanoseconds begin = {};
  std::chrono::nanoseconds end = {};
  /// The launch may have overlapped its neighbours, because no barrier separated them. The interval
  /// runs from the end of the launch before it to its own end.
  bool is_side_by_side = false;
  /// Several launches shared one pair of timestamps; each has an equal share of the time.
  bool is_shared_out = false;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const BackendInfo& info() const noexcept = 0;
  /// Source of the pages of the memory pool.
  [[nodiscard]] virtual PageProvider& pages() noexcept = 0;
  /// Returns whether this op can run with operands of these layouts and dtypes, whatever their
  /// bytes.
  [[nodiscard]] virtual Support supports(const KernelCall& call) const = 0;
  /// Prepares all that submit() of this call needs, such as a compiled kernel. The device calls it
  /// for ops of an update group, which must not fail for lack of it once others have run.
  ///
  /// Errors: kernel_failed; unsupported.
  [[nodiscard]] virtual Status prepare(const KernelCall& call) {
    static_cast<void>(call);
    return {};
  }
  /// Announces a call like this one, so that other threads may compile its kernel. Ignores the
  /// bytes of its operands. An announced call that never comes wastes time alone.
  virtual void foresee(const KernelCall& call) { static_cast<void>(call); }
  /// Returns whether submit() of this call would find its kernel compiled. Ignores the bytes of its
  /// operands.
  [[nodiscard]] virtual bool has_kernel(const KernelCall& call) {
    static_cast<void>(call);
    return true;
  }
  /// Returns whether output 0 may share the bytes of input `input_index` when both have the same
  /// size and dtype and are contiguous.
  [[nodiscard]] virtual bool may_alias(OpKind kind, int input_index) const noexcept = 0;
  /// Returns whether kernels of this kind accept some epilogue; supports() decides for each call.
  [[nodiscard]] virtual bool may_anchor(OpKind kind) const noexcept {
    static_cast<void>(kind);
    return true;
  }
  /// Returns whether kernels of this kind accept a Prologue: a call of kind `maker` computes input
  /// number `input` as the kernel consumes it. supports() decides for each call. Inline backends
  /// only.
  [[nodiscard]] virtual bool may_take_prologue(OpKind kind,
                                               int input,
                                               OpKind maker) const noexcept {
    static_cast<void>(kind);
    static_cast<void>(input);
    static_cast<void>(maker);
    return false;
  }
  /// Returns the number of calls like this one that may run as one call, with inputs 0 and outputs
  /// 0 concatenated along their first axis. The calls share all other operands. Every result keeps
  /// the bits that it has alone. 1: the calls cannot be joined.
  [[nodiscard]] virtual std::int64_t joinable_calls(const KernelCall& call) const noexcept {
    static_cast<void>(call);
    return 1;
  }
  /// Sets the source of the memory that kernels need while they run. The device calls it once,
  /// before the first op; a backend without a device uses memory of its own.
  virtual void use_scratch(ScratchMemory& scratch) noexcept { static_cast<void>(scratch); }
  /// Returns the scratch bytes that submit() of this call would take. The device reserves them for
  /// ops of an update group, which must not fail for lack of them. 0: none, or not known in
  /// advance.
  [[nodiscard]] virtual std::int64_t scratch_bytes(const KernelCall& call) const noexcept {
    static_cast<void>(call);
    return 0;
  }

  /// Runs or enqueues launches on kOpStream, after all points of `after` and after all earlier
  /// submits. Enqueued launches start at the next flush() at the latest. Launches of one batch are
  /// unordered and may run concurrently: no launch writes bytes that another launch of the batch
  /// reads or writes.
  ///
  /// Errors: in the issue's status. kernel_failed, out_of_range or unsupported for a refused
  /// launch, and on inline backends for one that fails; device_lost for the device. A launch that
  /// finds no scratch memory leaves its inputs unchanged.
  [[nodiscard]] virtual Issue submit(std::span<const Launch> batch,
                                     std::span<const TimelinePoint> after) = 0;
  /// Starts the work that submit() has accepted. The owner calls it before it waits or sleeps;
  /// copies flush on their own.
  ///
  /// Errors: device_lost.
  [[nodiscard]] virtual Status flush() { return {}; }
  /// Copies between host memory and the device on kUploadStream and kDownloadStream, after all
  /// points of `after`. `to` of upload() and `from` of download() are device addresses, as in
  /// TensorView::data. Neither function waits for the device. A call may accept only the first
  /// bytes, at most one piece; the caller repeats it for the rest. The backend uses the accepted
  /// host bytes until the part's point. Inline backends accept everything.
  ///
  /// Errors: device_lost.
  /// Cost: the host's copy of at most one piece, and the recording of submitted work; inline: the
  /// whole copy.
  [[nodiscard]] virtual Result<CopyPart> upload(std::byte* to,
                                                std::span<const std::byte> from,
                                                std::span<const TimelinePoint> after) = 0;
  [[nodiscard]] virtual Result<CopyPart> download(std::span<std::byte> to,
                                                  const std::byte* from,
                                                  std::span<const TimelinePoint> after) = 0;
  /// Cancels a partly accepted download: nothing is written to these bytes any more. For backends
  /// that accept downloads in parts.
  virtual void forget_target(std::span<std::byte> target) noexcept { static_cast<void>(target); }
  /// Returns the point of the newest copy submitted to the device on this stream. Even the copy of
  /// a failed upload() or download() may have begun. Until this point, the device may access its
  /// own bytes of that copy, but not the host's bytes.
  [[nodiscard]] virtual TimelinePoint newest_copy(std::uint8_t stream) const noexcept {
    return {.value = 0, .stream = stream};
  }
  /// Allocates uninitialised host memory that upload() and download() reach without an extra host
  /// copy. It may outlive the backend, and any thread may release it.
  [[nodiscard]] virtual HostBytes host_bytes(std::size_t size) { return HostBytes::make(size); }
  /// Returns the bytes of host_bytes() that are pinned for the device, in use or cached. Threads:
  /// any.
  [[nodiscard]] virtual std::int64_t pinned_bytes() const noexcept { return 0; }
  /// Frees the cached memory of host_bytes() that is not in use. Returns its size in bytes.
  virtual std::int64_t trim() noexcept { return 0; }
  /// Returns the newest completed value of the stream. The value never decreases.
  [[nodiscard]] virtual std::uint64_t completed(std::uint8_t stream) noexcept {
    static_cast<void>(stream);
    return ~std::uint64_t{0};
  }
  /// Waits until one of these points completes.
  ///
  /// Errors: device_lost; deadline_exceeded.
  /// Threads: any.
  [[nodiscard]] virtual Status wait(std::span<const TimelinePoint> any_of, Deadline deadline) {
    static_cast<void>(any_of);
    static_cast<void>(deadline);
    return {};
  }
  /// Last call before the device's memory is released. Waits, with a limit, for submitted work.
  /// Work that exceeds the limit keeps its pages, although the pool has freed them.
  virtual void come_to_rest() noexcept {}
  /// Returns the failure that a kernel left in this cell. The caller reads it after the kernel's
  /// point completes, before the cell is reused.
  [[nodiscard]] virtual Status cell_status(ErrorCell cell) {
    static_cast<void>(cell);
    return {};
  }
  [[nodiscard]] virtual CompileCounts compile_counts() const noexcept { return {}; }
  /// Returns the times of completed launches that have a number (Launch::timed_as), each once. A
  /// device without a clock returns none.
  [[nodiscard]] virtual std::vector<LaunchTime> take_launch_times() { return {}; }
};

}  // namespace hearth
