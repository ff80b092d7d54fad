// The backend seam: the interface that a device type implements. One Backend object belongs to one
// device and is driven by the device actor. Backend submits work and waits for it. Its parts are
// KernelFacts, KernelMaker, CopyEngine and BatchTimes, each with one subject.
// Threads: owner only (the holder of the device's token), except info(), facts(), wait() and
// CopyEngine::pinned_bytes(). The functions that return parts: any.
// Work runs on physical streams. Ops run on kOpStream, in the order of their submits wherever their
// bytes overlap. Copies run on the other streams. Work waits for another stream only where `after`
// names a point of that stream. Points of one stream complete in order.
// An inline backend (BackendInfo::runs_inline) completes all work before a call returns, and
// returns points that are done.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <hearth/autotune/candidate.hpp>
#include <hearth/backends/batch_times.hpp>
#include <hearth/backends/copy_engine.hpp>
#include <hearth/backends/kernel.hpp>
#include <hearth/backends/kernel_facts.hpp>
#include <hearth/backends/kernel_maker.hpp>
#include <hearth/backends/scratch_memory.hpp>
#include <hearth/backends/timeline.hpp>
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
  /// Facts of the machine under which picks among KernelMaker::candidates() hold
  /// (detail::Fingerprint::text). Empty: the backend has no candidates.
  std::string fingerprint = {};
  /// Number of error cells; 0 means no limit.
  std::uint32_t most_cells = 0;
  bool computes = true;  ///< false: results are undefined (a sim that models time alone).
  /// false: every op runs as a separate kernel, even where fusion is enabled. An oracle must not
  /// share the errors of fused groups.
  bool takes_groups = true;
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
  bool is_deferrable = false;
  /// Number of this launch in BatchTimes::take_launch_times(); 0 if its time is not needed.
  std::uint32_t timed_as = 0;
  /// Kernel to run: one of KernelMaker::candidates() of such a call, by default the backend's rule.
  /// A backend with candidates refuses a pick that the call does not list (is_pick_refused).
  detail::CandidateId pick = detail::kRulePick;
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
  /// Launch::is_deferrable is set.
  bool is_compiling = false;
  /// Launch number `issued` was refused for its pick alone: the call does not allow that candidate.
  /// Nothing ran, and the rule would.
  bool is_pick_refused = false;
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

  /// The parts. The backend owns them, and each function returns the same object every time: a
  /// caller may keep the reference as long as the backend lives.
  [[nodiscard]] virtual const KernelFacts& facts() const noexcept = 0;
  [[nodiscard]] virtual KernelMaker& kernels() noexcept = 0;
  [[nodiscard]] virtual CopyEngine& copies() noexcept = 0;
  /// Null if the device has no clock.
  [[nodiscard]] virtual BatchTimes* times() noexcept { return nullptr; }

  /// Returns whether this op can run with operands of these layouts and dtypes, whatever their
  /// bytes.
  [[nodiscard]] virtual Support supports(const KernelCall& call) const = 0;
  /// Sets the source of the memory that kernels need while they run. The device calls it once,
  /// before the first op; a backend without a device uses memory of its own.
  virtual void use_scratch(ScratchMemory& scratch) noexcept { static_cast<void>(scratch); }

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
  virtual void drain() noexcept {}
  /// Returns the failure that a kernel left in this cell. The caller reads it after the kernel's
  /// point completes, before the cell is reused.
  [[nodiscard]] virtual Status cell_status(ErrorCell cell) {
    static_cast<void>(cell);
    return {};
  }
};

}  // namespace hearth
