#include "op_stream_program.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>

#include "runtime/device/backend_factory.hpp"

namespace hearth::fuzz {
namespace {

class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  [[nodiscard]] bool is_empty() const noexcept { return bytes_.empty(); }
  /// Below `count`; 0 once they are used up.
  int pick(int count) {
    if (bytes_.empty()) {
      return 0;
    }
    const int byte = static_cast<int>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return byte % count;
  }
  /// The next ones for somebody else.
  [[nodiscard]] Bytes split(std::size_t size) {
    const std::size_t part = std::min(size, bytes_.size());
    const Bytes taken(bytes_.first(part));
    bytes_ = bytes_.subspan(part);
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
};

// One thread's part of a program.
class Worker {
 public:
  Worker(Executor& executor,
         std::array<Device, 2> devices,
         Bytes bytes,
         std::vector<Tensor> live,
         bool has_groups,
         int depth)
      : executor_(executor),
        devices_(std::move(devices)),
        bytes_(bytes),
        live_(std::move(live)),
        has_groups_(has_groups),
        depth_(depth) {
    for (const Device& device : devices_) {
      streams_.emplace_back(device);
      streams_.emplace_back(device);
    }
  }

  void run() {
    while (!bytes_.is_empty() && steps_++ < kMostSteps) {
      const StreamScope first(streams_[static_cast<std::size_t>(bytes_.pick(2))]);
      const StreamScope second(streams_[2 + static_cast<std::size_t>(bytes_.pick(2))]);
      if (!try_step()) {
        break;
      }
    }
    join_all();
  }
  [[nodiscard]] std::vector<Tensor>& live() noexcept { return live_; }
  /// As a thread of its own.
  void run_apart() {
    try {
      for (Tensor& tensor : live_) {
        tensor.adopt();
      }
      run();
      for (const Tensor& tensor : live_) {
        tensor.publish();
      }
    } catch (const DeviceError& error) {
      if (error.code() != ErrorCode::device_lost) {
        throw;
      }
      was_cut_short_ = true;
    }
  }
  [[nodiscard]] bool was_cut_short() const noexcept { return was_cut_short_; }

 private:
  static constexpr int kMostSteps = 200;
  static constexpr std::size_t kMostLive = 16;
  static constexpr std::int64_t kMostElements = 256;

  struct Helper {
    std::unique_ptr<Worker> worker;
    std::unique_ptr<Joinable> thread;
  };

  std::size_t any() {
    return static_cast<std::size_t>(bytes_.pick(static_cast<int>(live_.size())));
  }

  Tensor take() {
    if (live_.empty()) {
      return make();
    }
    const std::size_t index = any();
    if (bytes_.pick(2) == 0) {
      return live_[index];
    }
    Tensor taken = std::move(live_[index]);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    return taken;
  }

  // Back to small integers, whatever an op made of them.
  static Tensor tame(Tensor x) {
    return x.dtype() == DType::boolean ? std::move(x) : minimum(maximum(std::move(x), -4), 4);
  }

  void keep(Tensor x) {
    if (x.element_count() > kMostElements) {
      x = slice(flatten(std::move(x)), 0, {.stop = 7});
    }
    if (live_.size() >= kMostLive) {
      live_[any()] = std::move(x);
    } else {
      live_.push_back(std::move(x));
    }
  }

  Tensor make() {
    static constexpr std::array<std::int64_t, 6> kSizes{1, 2, 3, 0, 5, 4};
    static constexpr std::array<DType, 5> kTypes{
        DType::f32, DType::i32, DType::f64, DType::f16, DType::i64};
    Shape shape;
    const int rank = bytes_.pick(4);
    for (int i = 0; i < rank; ++i) {
      shape.push_back(kSizes[static_cast<std::size_t>(bytes_.pick(6))]);
    }
    const Device& device = devices_[static_cast<std::size_t>(bytes_.pick(2))];
    const DType dtype = kTypes[static_cast<std::size_t>(bytes_.pick(5))];
    if (bytes_.pick(2) == 0) {
      return full(device, shape, bytes_.pick(9) - 4, dtype);
    }
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    for (float& value : values) {
      value = static_cast<float>(bytes_.pick(9) - 4);
    }
    return cast(Tensor::from(device, std::move(values), shape), dtype);
  }

  // Another operand for x: of its type, on its device, of a shape that broadcasts.
  Tensor partner(const Tensor& x) {
    Tensor y = live_.empty() ? x : live_[any()];
    y = cast(y.to(x.device()), x.dtype());
    return broadcast(x.shape(), y.shape()).has_value() ? y : x;
  }

  // False when a device is lost.
  bool try_step() {
    try {
      step();
    } catch (const DeviceError& error) {
      if (error.code() != ErrorCode::device_lost) {
        throw;
      }
      was_cut_short_ = true;
    }
    return !was_cut_short_;
  }

  void step() {
    // The last of the 256 steps are gradients, so that what inputs found before means the same.
    constexpr int kFirstGradient = 252;
    const int chosen = bytes_.pick(256);
    if (chosen >= kFirstGradient) {
      return differentiate(take());
    }
    switch (chosen % 12) {
      case 0:
        return keep(make());
      case 1:
        return keep(tame(unary(numbers(take()))));
      case 2:
      case 3:
        return keep(tame(binary(numbers(take()))));
      case 4:
      case 5:
        return keep(view(take()));
      case 6:
        return keep(tame(reduce(numbers(take()))));
      case 7:
        return keep(tame(contract(take())));
      case 8:
        return keep(choose(numbers(take())));
      case 9:
        return hop(take());
      case 10:
        return lifetime();
      default:
        return has_groups_ ? update() : keep(make());
    }
  }

  static Tensor numbers(Tensor x) {
    return x.dtype() == DType::boolean ? cast(std::move(x), DType::f32) : x;
  }

  Tensor unary(Tensor x) {
    switch (bytes_.pick(5)) {
      case 0:
        return -std::move(x);
      case 1:
        return abs(std::move(x));
      case 2:
        return square(std::move(x));
      case 3:
        return is_float(x.dtype()) ? relu(std::move(x)) : abs(std::move(x));
      default: {
        static constexpr std::array<DType, 4> kTypes{
            DType::f32, DType::f64, DType::i32, DType::bf16};
        return cast(std::move(x), kTypes[static_cast<std::size_t>(bytes_.pick(4))]);
      }
    }
  }

  Tensor binary(Tensor x) {
    Tensor y = partner(x);
    switch (bytes_.pick(6)) {
      case 0:
        return std::move(x) + std::move(y);
      case 1:
        return std::move(x) - y;
      case 2:
        return x * std::move(y);
      case 3:
        return minimum(std::move(x), y);
      case 4:
        return maximum(x, std::move(y));
      default:
        return bytes_.pick(2) == 0 ? 3 - std::move(x) : std::move(x) * 2;
    }
  }

  Tensor view(Tensor x) {
    const int rank = x.rank();
    switch (bytes_.pick(5)) {
      case 0:
        return flatten(std::move(x));
      case 1: {
        std::vector<int> axes;
        for (int i = 0; i < rank; ++i) {
          axes.insert(axes.begin() + bytes_.pick(i + 1), i);
        }
        return permute(std::move(x), axes);
      }
      case 2: {
        constexpr std::array<std::int64_t, 4> kSteps{1, 2, -1, -2};
        const int axis = rank == 0 ? 0 : bytes_.pick(rank);
        return rank == 0 ? x
                         : slice(std::move(x),
                                 axis,
                                 {.step = kSteps[static_cast<std::size_t>(bytes_.pick(4))]});
      }
      case 3: {
        Shape wide{2};
        for (const std::int64_t size : x.shape().dims()) {
          wide.push_back(size);
        }
        return rank < 5 ? expand(std::move(x), wide) : x;
      }
      default:
        return rank > 0 ? concat({x, x}, bytes_.pick(rank)) : contiguous(std::move(x));
    }
  }

  Tensor reduce(Tensor x) {
    if (x.rank() == 0 || x.element_count() == 0) {
      return x;
    }
    if (x.dtype() == DType::f16 || x.dtype() == DType::bf16) {
      x = cast(std::move(x), DType::f32);
    }
    const int axis = bytes_.pick(x.rank());
    switch (bytes_.pick(3)) {
      case 0:
        return sum(std::move(x), {axis});
      case 1:
        return max(std::move(x), {axis}, true);
      default:
        return argmax(std::move(x), axis);
    }
  }

  Tensor contract(Tensor x) {
    x = cast(std::move(x), bytes_.pick(2) == 0 ? DType::f32 : DType::f64);
    if (x.rank() < 2) {
      x = reshape(std::move(x), {1, -1});
    }
    if (x.element_count() == 0) {
      return x;
    }
    Tensor other = transpose(x);
    return matmul(std::move(x), std::move(other));
  }

  Tensor choose(Tensor x) {
    Tensor y = partner(x);
    return where(greater(x, y), x, maximum(y, 0));
  }

  // To the other device, or to another thread.
  void hop(Tensor x) {
    if (depth_ > 0 || bytes_.pick(2) == 0) {
      const bool is_first = x.device().name() == devices_[0].name();
      keep(x.to(devices_[is_first ? 1 : 0]));
      return;
    }
    x.publish();
    std::vector<Tensor> given;
    given.push_back(std::move(x));
    auto worker =
        std::make_unique<Worker>(executor_,
                                 devices_,
                                 bytes_.split(8 + static_cast<std::size_t>(bytes_.pick(32))),
                                 std::move(given),
                                 has_groups_,
                                 depth_ + 1);
    Worker* running = worker.get();
    auto thread = executor_.spawn({.name = "helper"}, [running] { running->run_apart(); });
    helpers_.push_back({std::move(worker), std::move(thread)});
    if (helpers_.size() > 2 || bytes_.pick(2) == 0) {
      join_all();
    }
  }

  void join_all() {
    for (Helper& helper : helpers_) {
      helper.thread->join();
      if (helper.worker->was_cut_short()) {
        was_cut_short_ = true;
        continue;
      }
      for (Tensor& tensor : helper.worker->live()) {
        keep(std::move(tensor));
      }
    }
    helpers_.clear();
  }

  void lifetime() {
    if (live_.empty()) {
      return;
    }
    const std::size_t index = any();
    switch (bytes_.pick(6)) {
      case 0:
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
        return;
      case 1:
        live_[index].publish();
        live_[index].adopt();
        return;
      case 2:
        static_cast<void>(live_[index].read_bytes().wait());
        return;
      case 3:
        static_cast<void>(devices_[static_cast<std::size_t>(bytes_.pick(2))].sync_later().wait());
        return;
      case 4:
        return keep(live_[index]);
      default:
        return keep(lend(
            live_[index],
            [](Result<LentRegion> region) {
              if (region.has_value()) {
                std::move(region).value().done();
              }
            },
            Deadline::in(kDefaultWait)));
    }
  }

  // Of sums of products of small integers, so that all is exact.
  void differentiate(Tensor x) {
    x = cast(std::move(x), DType::f32);
    Tensor y = partner(x);
    const auto loss = [](const std::vector<Tensor>& of) { return sum(relu(of[0]) * of[1]); };
    for (Tensor& gradient : grad(loss, {std::move(x), std::move(y)})) {
      keep(tame(std::move(gradient)));
    }
  }

  // Small integers again: the step takes the gradient itself off.
  void update() {
    Tensor parameter = cast(take(), DType::f32);
    Tensor gradient = bytes_.pick(2) == 0 ? ones_like(parameter) : parameter;
    const bool has_momentum = bytes_.pick(2) == 0;
    Tensor momentum = has_momentum ? zeros_like(parameter) : Tensor();
    {
      UpdateGroup group(parameter.device());
      group.sgd(parameter,
                std::move(gradient),
                momentum,
                {.learning_rate = 1, .momentum = has_momentum ? 1.0 : 0.0});
      if (bytes_.pick(4) != 0) {
        Pending<void> done = group.commit();
        if (bytes_.pick(2) == 0) {
          static_cast<void>(done.wait());
        }
      }
    }
    keep(tame(std::move(parameter)));
  }

  Executor& executor_;
  std::array<Device, 2> devices_;
  Bytes bytes_;
  std::vector<Tensor> live_;
  const bool has_groups_;
  const int depth_;
  int steps_ = 0;
  bool was_cut_short_ = false;
  std::vector<Stream> streams_;
  std::vector<Helper> helpers_;
};

// Until all that is queued has run; a lost device has nothing to wait for.
Status settle(const Device& device) {
  try {
    return device.catch_up_later().wait();
  } catch (const DeviceError& error) {
    return error.shared_error();
  }
}

std::vector<Outcome> read_all(const std::vector<Tensor>& tensors) {
  std::vector<Outcome> outcomes;
  for (const Tensor& tensor : tensors) {
    try {
      outcomes.push_back({.values = cast(tensor, DType::f64).to_vector<double>()});
    } catch (const DeviceError& error) {
      outcomes.push_back({.error = error.shared_error()});
    }
  }
  return outcomes;
}

BackendFactory with_faults(const FaultPlan& faults) {
  return {.make = [faults](const BackendRequest& request) -> std::unique_ptr<Backend> {
    if (request.name != "sim:0") {
      return nullptr;
    }
    return std::make_unique<sim::SimBackend>(
        sim::SimOptions{.name = request.name, .faults = faults});
  }};
}

}  // namespace

StreamRun run_stream_program(const StreamProgram& program,
                             const std::string& device_type,
                             const std::optional<FaultPlan>& faults) {
  StreamRun result;
  ManualExecutor executor(program.schedule, {.max_steps = 20'000'000});
  const BackendFactory factory = faults ? with_faults(*faults) : BackendFactory{};
  executor.run([&] {
    constexpr std::int64_t kBudget = 64 << 20;
    const Runtime runtime(
        {.devices = {{.name = device_type + ":0", .memory_budget_bytes = kBudget},
                     {.name = device_type + ":1", .memory_budget_bytes = kBudget}},
         .executor = &executor,
         .backend_factory = faults ? &factory : nullptr});
    const std::array<Device, 2> devices{runtime.device(device_type + ":0"),
                                        runtime.device(device_type + ":1")};
    RecordScope recording(runtime);
    {
      Worker worker(executor, devices, Bytes(program.bytes), {}, program.has_groups, 0);
      worker.run();
      result.outcomes = read_all(worker.live());
      result.was_cut_short = worker.was_cut_short();
    }
    result.trace = recording.take().value();
    for (const Device& device : devices) {
      static_cast<void>(settle(device));
      const auto memory = device.memory();
      result.leaked_tensors += memory.live_tensor_count;
      result.leaked_bytes += memory.live_bytes;
    }
  });
  return result;
}

}  // namespace hearth::fuzz
