// The backend seam: what a device type must offer. One Backend object belongs to one device and is
// driven by its actor. Threads: owner only (the holder of the device's token), except info() and
// wait(). Work runs on physical streams, numbered as memory does: ops on kOpStream, in the order of
// submits wherever their bytes overlap; copies on the others. What is on another stream is waited
// for where `after` names its point, and nowhere else. Points of a stream end in their order.
// Inline backends (BackendInfo::runs_inline) have ended all work when a call returns, and answer
// with points that are done.
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
  bool runs_inline = true;  ///< Its work runs on the submitting thread: the token may be lent to a
                            ///< reader, which cannot leave a kernel. So never where one may hang.
  bool has_host_memory = true;  ///< The host may touch its bytes where no work does.
  int core_count = 1;
  /// Of its own memory, from which a budget is taken where the program sets none; 0: it is the
  /// host's.
  std::int64_t memory_bytes = 0;
  /// Under which what its kernels reach is kept, for tapes to decide by: devices of one name are
  /// equally fast, on a host core by core. Empty: its speed says nothing.
  std::string peaks_name = {};
  /// How many error cells it has; 0: as many as anybody wants.
  std::uint32_t most_cells = 0;
  bool computes = true;  ///< false: results are undefined (a sim that only keeps time).
  /// false: each op is a kernel of its own, whatever the program says: an oracle must not share the
  /// mistakes of groups.
  bool takes_groups = true;
};

/// The physical streams of a device, out of kMaxPhysicalStreams.
inline constexpr std::uint8_t kOpStream = 0;
inline constexpr std::uint8_t kUploadStream = 1;
inline constexpr std::uint8_t kDownloadStream = 2;

/// The end of all work on a stream up to one piece of it. Value 0 is done from the beginning.
struct TimelinePoint {
  std::uint64_t value = 0;
  std::uint8_t stream = kOpStream;

  [[nodiscard]] bool is_done() const noexcept { return value == 0; }
  friend bool operator==(const TimelinePoint&, const TimelinePoint&) = default;
};

/// What a device has taken of a copy: its first bytes, which may be all.
struct CopyPart {
  TimelinePoint point = {};    ///< When they have been copied.
  std::size_t size_bytes = 0;  ///< 0 of some: there is no room before `point`.
};

/// A word of the device in which a kernel leaves that it failed, for later work and for the host;
/// 0 is none. The device's runtime gives the numbers out, from 1, and uses them again.
using ErrorCell = std::uint32_t;

/// One kernel of a submit. Borrowed until submit() returns.
struct Launch {
  KernelCall call;
  /// Where a kernel that may fail while it runs leaves it; empty when the kernel begins. Inline
  /// backends say it in the status of submit.
  ErrorCell cell = 0;
  /// The kernel's results count only if none of these has a failure when it begins. Otherwise
  /// output i has the elements of input keeps[i] afterwards, which is as large.
  std::span<const ErrorCell> guards = {};
  std::span<const std::int8_t> keeps = {};
  /// It may be refused for as long as its kernel is being compiled (Issue::is_compiling): the
  /// caller has other kernels for the same work.
  bool may_come_later = false;
  /// The number under which take_launch_times() has it; 0: nobody asks when it ran.
  std::uint32_t timed_as = 0;
};

/// What became of a submit: the first `issued` launches run or have run, up to `point`; launch
/// number `issued`, if there is one, has `status`, and those behind it were not looked at.
struct Issue {
  TimelinePoint point = {};
  std::uint32_t issued = 0;
  Status status = {};
  /// Whether launch number `issued` may have written something although it has failed. A backend
  /// that knows better says so: then the op counts as never tried, and what it would have
  /// overwritten is whole.
  bool may_have_begun = true;
  /// Launch number `issued` was refused because its kernel is being compiled, and was allowed to
  /// come later.
  bool is_compiling = false;
};

/// Host memory, for as long as somebody holds it. Threads: values.
struct HostBytes {
  std::shared_ptr<std::byte> first = {};
  std::size_t size = 0;

  [[nodiscard]] std::span<std::byte> span() const noexcept { return {first.get(), size}; }
  explicit operator bool() const noexcept { return first != nullptr; }
  /// Ordinary memory; its bytes are not set.
  [[nodiscard]] static HostBytes make(std::size_t size) {
    return {std::shared_ptr<std::byte>(new std::byte[size], std::default_delete<std::byte[]>()),
            size};
  }
};

/// What a backend has compiled since it was opened.
struct CompileCounts {
  std::uint64_t kernels = 0;   ///< Made, by the driver or from what it keeps on disk.
  std::uint64_t compiled = 0;  ///< Of these, from a text that was on no disk.
};

/// When a launch ran, by the device's clock, as times of the host's steady clock, to some ten
/// microseconds. A launch that ran in parts has one for each part.
struct LaunchTime {
  std::uint32_t number = 0;  ///< Launch::timed_as.
  std::chrono::nanoseconds begin = {};
  std::chrono::nanoseconds end = {};
  /// Nothing kept it apart from its neighbours. They may have overlapped: the time is by how much
  /// it ended behind the one before it.
  bool is_side_by_side = false;
  /// The device had no timestamp left for each of several, which share their time evenly.
  bool is_shared_out = false;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const BackendInfo& info() const noexcept = 0;
  /// Where the memory pool gets its pages.
  [[nodiscard]] virtual PageProvider& pages() noexcept = 0;
  /// Whether this op can run with operands of these layouts and dtypes, whatever their bytes are.
  [[nodiscard]] virtual Support supports(const KernelCall& call) const = 0;
  /// Makes what submit() of this call would have to make before it can run, a compilation say, for
  /// ops that must not fail for want of it once others have run: those of an update group.
  ///
  /// Errors: kernel_failed; unsupported.
  [[nodiscard]] virtual Status prepare(const KernelCall& call) {
    static_cast<void>(call);
    return {};
  }
  /// A call like this one comes soon: what submit() of it would have to make may be made until
  /// then, by other threads. The bytes of its operands are not looked at. A call that never comes
  /// costs time alone.
  virtual void foresee(const KernelCall& call) { static_cast<void>(call); }
  /// Whether submit() of this call would find its kernel made, so that it need not wait for a
  /// compilation. The bytes of its operands are not looked at.
  [[nodiscard]] virtual bool has_kernel(const KernelCall& call) {
    static_cast<void>(call);
    return true;
  }
  /// Whether output 0 may share the bytes of input `index` when both have the same size and dtype
  /// and are contiguous.
  [[nodiscard]] virtual bool may_alias(OpKind kind, int input_index) const noexcept = 0;
  /// Whether kernels of this kind take an epilogue; supports() says which.
  [[nodiscard]] virtual bool may_anchor(OpKind kind) const noexcept {
    static_cast<void>(kind);
    return true;
  }
  /// Whether kernels of this kind take such an input from a call of kind `maker` as that is made
  /// (Prologue); supports() says which. Inline backends only.
  [[nodiscard]] virtual bool may_take_prologue(OpKind kind,
                                               int input,
                                               OpKind maker) const noexcept {
    static_cast<void>(kind);
    static_cast<void>(input);
    static_cast<void>(maker);
    return false;
  }
  /// How many calls like this one, which share all but input 0 and output 0, may run as one call
  /// with those two put together along their first axis, so that every result has the bits it has
  /// alone. 1: none.
  [[nodiscard]] virtual std::int64_t joinable_calls(const KernelCall& call) const noexcept {
    static_cast<void>(call);
    return 1;
  }
  /// Where kernels get the memory that they need while they run. The device calls it once, before
  /// the first op; a backend that is driven without a device has some of its own.
  virtual void use_scratch(ScratchMemory& scratch) noexcept { static_cast<void>(scratch); }
  /// The bytes that submit() of this call would take there, for ops that must not fail for want of
  /// them once others have run: those of an update group. 0: none, or that is not known before.
  [[nodiscard]] virtual std::int64_t scratch_bytes(const KernelCall& call) const noexcept {
    static_cast<void>(call);
    return 0;
  }

  /// Runs or enqueues launches on kOpStream, to run by the next flush() at the latest, behind all
  /// of `after` and of what was submitted before. Inside of a batch no order holds: its launches
  /// may run at the same time, so the caller puts no two into it of which one writes bytes that the
  /// other reads or writes.
  ///
  /// Errors: in the issue's status. A launch's own (kernel_failed, out_of_range, unsupported) when
  /// it is refused, and on inline backends when it fails; device_lost is the device's. A launch
  /// that finds no scratch memory has changed no input.
  [[nodiscard]] virtual Issue submit(std::span<const Launch> batch,
                                     std::span<const TimelinePoint> after) = 0;
  /// Work that submit() has taken begins to run, if it has not yet. The owner calls it before it
  /// waits, or sleeps; copies do it themselves.
  ///
  /// Errors: device_lost.
  [[nodiscard]] virtual Status flush() { return {}; }
  /// Copies between host memory and the device, behind all of `after`, on kUploadStream and
  /// kDownloadStream. `to`/`from` are device addresses of TensorView::data. Neither waits for the
  /// device: it may take the first bytes alone, as many as have room now and at most one piece,
  /// and the caller comes with the rest. Those bytes of the host stay the backend's up to the
  /// part's point. Inline backends take everything.
  ///
  /// Errors: device_lost.
  /// Cost: at most the host's copy of one piece, and recording what was submitted; inline: all.
  [[nodiscard]] virtual Result<CopyPart> upload(std::byte* to,
                                                std::span<const std::byte> from,
                                                std::span<const TimelinePoint> after) = 0;
  [[nodiscard]] virtual Result<CopyPart> download(std::span<std::byte> to,
                                                  const std::byte* from,
                                                  std::span<const TimelinePoint> after) = 0;
  /// A download of which parts were taken is given up: from now on nothing comes into these bytes.
  /// For backends that take downloads in parts.
  virtual void forget_target(std::span<std::byte> target) noexcept { static_cast<void>(target); }
  /// The point of the newest copy on this stream that the device was given. A call of upload() or
  /// download() that fails may have begun: up to this point the device may touch its bytes, but
  /// not those of the host.
  [[nodiscard]] virtual TimelinePoint newest_copy(std::uint8_t stream) const noexcept {
    return {.value = 0, .stream = stream};
  }
  /// Host memory that upload() and download() of this device reach without a copy of the host's;
  /// its bytes are not set. It may outlive the backend, and may be let go on any thread.
  [[nodiscard]] virtual HostBytes host_bytes(std::size_t size) { return HostBytes::make(size); }
  /// Of host_bytes(), what is pinned for the device now, held or kept. Threads: any.
  [[nodiscard]] virtual std::int64_t pinned_bytes() const noexcept { return 0; }
  /// Gives back what is kept of host_bytes() and held by nobody; how many bytes that were.
  virtual std::int64_t trim() noexcept { return 0; }
  /// The value up to which the stream's work has ended. Never falls.
  [[nodiscard]] virtual std::uint64_t completed(std::uint8_t stream) noexcept {
    static_cast<void>(stream);
    return ~std::uint64_t{0};
  }
  /// Waits until one of these points has ended.
  ///
  /// Errors: device_lost; deadline_exceeded.
  /// Threads: any.
  [[nodiscard]] virtual Status wait(std::span<const TimelinePoint> any_of, Deadline deadline) {
    static_cast<void>(any_of);
    static_cast<void>(deadline);
    return {};
  }
  /// Comes before the memory of its device goes back, and nothing but that comes behind it: waits
  /// until what was submitted has ended. What has not ended in time keeps its pages, although they
  /// are given back.
  virtual void come_to_rest() noexcept {}
  /// What the kernel that was launched with this cell has left there; asked once its point has
  /// ended, before the cell is used again.
  [[nodiscard]] virtual Status cell_status(ErrorCell cell) {
    static_cast<void>(cell);
    return {};
  }
  [[nodiscard]] virtual CompileCounts compile_counts() const noexcept { return {}; }
  /// When launches that have ended ran, of those that have a number (Launch::timed_as), each once.
  /// A device without a clock of its own has none.
  [[nodiscard]] virtual std::vector<LaunchTime> take_launch_times() { return {}; }
};

}  // namespace hearth
