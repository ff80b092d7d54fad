// CUDA's driver on the host: libcuda.so.1 for machines without a GPU. "Cubins" are libraries that
// host_nvrtc.cpp has built; streams are queues that one thread steps, in an order drawn from a
// seed. Has the functions of backends/cuda/driver/cuda_api.hpp.
//
// Variables of the environment: HEARTH_HOST_CUDA_SEED, the seed (1 when not set);
// HEARTH_HOST_CUDA_DEVICES, the number of devices (1 when not set); HEARTH_HOST_CUDA_UUID, the UUID
// of all of them; HEARTH_HOST_CUDA_FAULT, the number of the launch on device 0, counted from 1,
// that reads an illegal address (none when not set). As with NVIDIA's driver, the device then fails
// for the rest of the process, and others go on.
#include "backends/cuda/driver/cuda_types.hpp"

#include "host_block.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// The names and types are those of CUDA's driver.
// NOLINTBEGIN(readability-identifier-naming,google-build-using-namespace,performance-no-int-to-ptr)
namespace {

using namespace hearth::cuda;
using hearth::testing::HostBlock;
using hearth::testing::HostKernel;

constexpr CUresult kInvalidValue = 1;
constexpr CUresult kNotFound = 500;
constexpr CUresult kIllegalAddress = 700;
constexpr std::size_t kMostDevices = 16;

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Cards that an illegal address has made unusable.
std::array<std::atomic<bool>, kMostDevices> has_fault{};
/// The card of the thread's current context; the last one if it has none.
thread_local std::size_t current_card = kMostDevices - 1;

/// The launch counted on its card: true if it reads an illegal address.
bool is_fault(std::size_t card) {
  static const std::uint64_t planned = number_of("HEARTH_HOST_CUDA_FAULT", 0);
  static std::atomic<std::uint64_t> launches{0};
  return card == 0 && planned != 0 && launches.fetch_add(1) + 1 == planned;
}

CUresult state_of(std::size_t card) {
  return has_fault[card].load() ? kIllegalAddress : kSuccess;
}
CUresult state() {
  return state_of(current_card);
}

struct Event {
  std::size_t card = current_card;
  std::atomic<std::uint64_t> recorded{0};  ///< How often it was recorded.
  std::atomic<std::uint64_t> reached{0};   ///< Up to which of them the streams have come.
  std::atomic<std::int64_t> time_ns{0};    ///< When the stream reached it last.
  bool has_time = true;
};

/// A piece of a stream's work: runs, or returns false if it has to wait.
using Work = std::function<bool()>;

struct Stream {
  std::size_t card = current_card;
  std::deque<Work> work;
};

/// The thread that steps the streams. Never destroyed.
class Machine final {
 public:
  static Machine& instance() {
    static auto* const machine = new Machine();
    return *machine;
  }
  void add(Stream* stream) {
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream);
  }
  /// Work of a card with a fault does nothing.
  void push(Stream* stream, Work work) {
    const std::lock_guard lock(mutex_);
    stream->work.push_back(
        [card = stream->card, own = std::move(work)] { return has_fault[card].load() || own(); });
    is_idle_ = false;
    has_work_.notify_one();
  }
  /// Waits until no stream can go on. Work that hangs counts as ended.
  void settle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return is_idle_; });
  }

 private:
  Machine()
      : random_(number_of("HEARTH_HOST_CUDA_SEED", 1)), choices_(random_()), block_(random_()) {
    std::thread([this] { loop(); }).detach();
  }

  // Work runs without the mutex.
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      const bool has_stepped = step(lock);
      if (!has_stepped) {
        is_idle_ = true;
        idle_.notify_all();
        has_work_.wait(lock);
      }
    }
  }
  bool step(std::unique_lock<std::mutex>& lock) {
    std::vector<Stream*> order = streams_;
    std::shuffle(order.begin(), order.end(), random_);
    for (Stream* const stream : order) {
      if (stream->work.empty()) {
        continue;
      }
      Work work = std::move(stream->work.front());
      lock.unlock();
      const bool is_done = work();
      lock.lock();
      if (!is_done) {
        stream->work.front() = std::move(work);
        continue;
      }
      stream->work.pop_front();
      return true;
    }
    return false;
  }

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable idle_;
  bool is_idle_ = true;
  std::vector<Stream*> streams_;
  std::mt19937_64 random_;
  std::mt19937_64 choices_;  // of the thread that steps

  HostBlock block_;

 public:
  std::uint64_t draw() { return choices_(); }
  /// Runs a kernel, or the planned fault in its place. Threads: the one that steps.
  void run(std::size_t card,
           const HostKernel& kernel,
           unsigned grid_x,
           unsigned grid_y,
           unsigned threads,
           const void* parameters) {
    if (is_fault(card)) {
      has_fault[card].store(true);
    }
    if (!has_fault[card].load()) {
      block_.run(kernel, grid_x, grid_y, threads, parameters);
    }
  }
};

/// A kernel of a graph, with a copy of its parameters.
struct Node {
  std::size_t number = 0;
  std::vector<std::size_t> before;
  const HostKernel* kernel = nullptr;
  unsigned grid_x = 0;
  unsigned grid_y = 0;
  unsigned threads = 0;
  std::vector<std::uint64_t> parameters;

  void set(const CUDA_KERNEL_NODE_PARAMS& from) {
    kernel = reinterpret_cast<const HostKernel*>(from.func);
    grid_x = from.gridDim[0];
    grid_y = from.gridDim[1];
    threads = from.blockDim[0];
    parameters.resize((kernel->parameter_bytes + 7) / 8);
    std::memcpy(parameters.data(), from.kernelParams[0], kernel->parameter_bytes);
  }
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};

// Runs the kernels in an order drawn from the seed, each behind those that it waits for: a missing
// edge shows.
void run_graph(std::size_t card, const std::vector<Node>& nodes) {
  Machine& machine = Machine::instance();
  std::vector<bool> has_run(nodes.size());
  for (std::size_t left = nodes.size(); left > 0; --left) {
    std::vector<const Node*> ready;
    for (const Node& node : nodes) {
      const bool is_ready = std::all_of(
          node.before.begin(), node.before.end(), [&](std::size_t i) { return has_run[i]; });
      if (!has_run[node.number] && is_ready) {
        ready.push_back(&node);
      }
    }
    const Node& next = *ready[machine.draw() % ready.size()];
    machine.run(card, *next.kernel, next.grid_x, next.grid_y, next.threads, next.parameters.data());
    has_run[next.number] = true;
  }
}

Stream* stream_of(CUstream stream) {
  return reinterpret_cast<Stream*>(stream);
}
Event* event_of(CUevent event) {
  return reinterpret_cast<Event*>(event);
}
void* host_of(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned /*flags*/) {
  return kSuccess;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == 719        ? "CUDA_ERROR_LAUNCH_FAILED"
          : error == 700        ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                : "CUDA_ERROR_OF_THE_HOST";
  return kSuccess;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == kOutOfMemory ? "out of memory" : "the host's driver refuses";
  return kSuccess;
}
CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(number_of("HEARTH_HOST_CUDA_DEVICES", 1));
  return kSuccess;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  const std::string own = "Host with fibers " + std::to_string(device);
  std::strncpy(name, own.c_str(), static_cast<std::size_t>(length));
  return kSuccess;
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, device, sizeof *uuid);
  const char* const digits = std::getenv("HEARTH_HOST_CUDA_UUID");
  for (std::size_t i = 0; digits != nullptr && i < sizeof *uuid && digits[2 * i] != 0; ++i) {
    uuid->bytes[i] =
        static_cast<char>(std::strtoul(std::string(digits + 2 * i, 2).c_str(), nullptr, 16));
  }
  return kSuccess;
}
CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice /*device*/) {
  switch (static_cast<Attribute>(attribute)) {
    case Attribute::max_threads_per_block:
      *value = 1024;
      return kSuccess;
    case Attribute::max_shared_memory_per_block:
      *value = 49152;
      return kSuccess;
    case Attribute::multiprocessor_count:
      *value = 2;
      return kSuccess;
    case Attribute::compute_capability_major:
      *value = 9;
      return kSuccess;
    case Attribute::compute_capability_minor:
      *value = 0;
      return kSuccess;
    case Attribute::virtual_memory_management_supported:
      *value = 1;
      return kSuccess;
    default:
      *value = 0;
      return kInvalidValue;
  }
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice /*device*/) {
  *bytes = std::size_t{4} << 30U;
  return kSuccess;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice /*device*/, unsigned* flags, int* is_active) {
  *flags = 0;
  *is_active = 0;
  return kSuccess;
}
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice /*device*/, unsigned /*flags*/) {
  return kSuccess;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
  return state_of(static_cast<std::size_t>(device));
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice /*device*/) {
  return kSuccess;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current_card = reinterpret_cast<std::uintptr_t>(context) - 1;
  return kSuccess;
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return kSuccess;
}

// ---- memory ----

CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{4} << 30U;
  return state();
}
CUresult cuMemGetAllocationGranularity(std::size_t* bytes,
                                       const CUmemAllocationProp* /*properties*/,
                                       int /*option*/) {
  *bytes = 65536;
  return kSuccess;
}
CUresult cuMemAddressReserve(CUdeviceptr* address,
                             std::size_t size,
                             std::size_t /*alignment*/,
                             CUdeviceptr /*wanted*/,
                             unsigned long long /*flags*/) {
  void* const made = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *address = reinterpret_cast<CUdeviceptr>(made);
  return made == MAP_FAILED ? kOutOfMemory : kSuccess;
}
CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  return munmap(host_of(address), size) == 0 ? kSuccess : kInvalidValue;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle,
                     std::size_t size,
                     const CUmemAllocationProp* /*properties*/,
                     unsigned long long /*flags*/) {
  const int file = memfd_create("hearth-host-cuda", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) {
    return kOutOfMemory;
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(file);
  return kSuccess;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return close(static_cast<int>(handle)) == 0 ? kSuccess : kInvalidValue;
}
CUresult cuMemMap(CUdeviceptr address,
                  std::size_t size,
                  std::size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long /*flags*/) {
  void* const made = mmap(host_of(address),
                          size,
                          PROT_NONE,
                          MAP_SHARED | MAP_FIXED,
                          static_cast<int>(handle),
                          static_cast<off_t>(offset));
  return made == MAP_FAILED ? kInvalidValue : kSuccess;
}
CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  Machine::instance().settle();  // NVIDIA's driver also waits for the work of the device
  void* const made =
      mmap(host_of(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return made == MAP_FAILED ? kInvalidValue : kSuccess;
}
CUresult cuMemSetAccess(CUdeviceptr address,
                        std::size_t size,
                        const CUmemAccessDesc* /*access*/,
                        std::size_t /*count*/) {
  return mprotect(host_of(address), size, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}
CUresult cuMemHostAlloc(void** host, std::size_t size, unsigned /*flags*/) {
  constexpr std::size_t kPage = 4096;
  if (state() != kSuccess) {
    return state();
  }
  *host = std::aligned_alloc(kPage, (size + kPage - 1) / kPage * kPage);
  return *host == nullptr ? kOutOfMemory : kSuccess;
}
CUresult cuMemFreeHost(void* host) {
  std::free(host);
  return kSuccess;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* host, unsigned /*flags*/) {
  *address = reinterpret_cast<CUdeviceptr>(host);
  return kSuccess;
}

// ---- streams and events ----

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned /*flags*/, int /*priority*/) {
  auto* const made = new Stream();
  Machine::instance().add(made);
  *stream = reinterpret_cast<CUstream>(made);
  return state();
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  static_cast<void>(stream);  // the thread may look at it
  return kSuccess;
}
CUresult cuEventCreate(CUevent* event, unsigned flags) {
  constexpr unsigned kDisableTiming = 2;
  auto* const made = new Event();
  made->has_time = (flags & kDisableTiming) == 0;
  *event = reinterpret_cast<CUevent>(made);
  return state();
}
CUresult cuEventDestroy_v2(CUevent event) {
  static_cast<void>(event);  // work in a stream may refer to it
  return kSuccess;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  Event* const own = event_of(event);
  const std::uint64_t number = own->recorded.fetch_add(1) + 1;
  Machine::instance().push(stream_of(stream), [own, number] {
    own->time_ns.store(std::chrono::steady_clock::now().time_since_epoch().count());
    own->reached.store(number);
    return true;
  });
  return state_of(own->card);
}
CUresult cuEventQuery(CUevent event) {
  const Event& own = *event_of(event);
  if (state_of(own.card) != kSuccess) {
    return state_of(own.card);
  }
  return own.reached.load() >= own.recorded.load() ? kSuccess : kNotReady;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  constexpr CUresult kInvalidHandle = 400;
  const Event& first = *event_of(begin);
  const Event& last = *event_of(end);
  if (!first.has_time || !last.has_time || first.recorded == 0 || last.recorded == 0) {
    return kInvalidHandle;
  }
  if (cuEventQuery(begin) != kSuccess || cuEventQuery(end) != kSuccess) {
    return kNotReady;
  }
  const auto ns = static_cast<double>(last.time_ns.load() - first.time_ns.load());
  *milliseconds = static_cast<float>(ns / 1e6);
  return kSuccess;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned /*flags*/) {
  const Event* const own = event_of(event);
  const std::uint64_t number = own->recorded.load();
  Machine::instance().push(stream_of(stream),
                           [own, number] { return own->reached.load() >= number; });
  return kSuccess;
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  Machine::instance().push(stream_of(stream), [function, data] {
    function(data);
    return true;
  });
  return kSuccess;
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  Machine::instance().push(stream_of(stream), [to, from, size] {
    std::memcpy(host_of(to), host_of(from), size);
    return true;
  });
  return state_of(stream_of(stream)->card);
}

// ---- kernels ----

// An image is the number of its bytes, then a library.
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (state() != kSuccess) {
    return state();
  }
  std::uint64_t size = 0;
  std::memcpy(&size, image, sizeof size);
  const int file = memfd_create("hearth-host-kernel", 0);
  const auto* bytes = static_cast<const char*>(image) + sizeof size;
  while (size > 0) {
    const ssize_t written = write(file, bytes, size);
    if (written <= 0) {
      return kOutOfMemory;
    }
    bytes += written;
    size -= static_cast<std::uint64_t>(written);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "host_driver: %s\n", dlerror());
    close(file);
    return kInvalidValue;
  }
  *module = reinterpret_cast<CUmodule>(library);
  return kSuccess;  // the file stays open, so that no other library gets its name
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* /*name*/) {
  void* const library = module;
  auto* const kernel = new HostKernel();
  kernel->entry = reinterpret_cast<void (*)(const void*)>(dlsym(library, "kernel_entry_at"));
  kernel->current = static_cast<HostThread**>(dlsym(library, "hearth_host_thread"));
  auto* const bytes = reinterpret_cast<unsigned (*)()>(dlsym(library, "kernel_parameter_bytes"));
  if (kernel->entry == nullptr || kernel->current == nullptr || bytes == nullptr) {
    return kNotFound;
  }
  kernel->parameter_bytes = bytes();
  *function = reinterpret_cast<CUfunction>(kernel);
  return kSuccess;
}
// Memory that blocks share is that of the library.
CUresult cuFuncSetAttribute(CUfunction /*function*/, int attribute, int value) {
  constexpr int kMostDynamicBytes = 8;
  constexpr int kMostOfACard = 99 << 10;  // compute capability 8.6
  return attribute == kMostDynamicBytes && value <= kMostOfACard ? kSuccess : kInvalidValue;
}
CUresult cuLaunchKernel(CUfunction function,
                        unsigned grid_x,
                        unsigned grid_y,
                        unsigned /*grid_z*/,
                        unsigned block_x,
                        unsigned /*block_y*/,
                        unsigned /*block_z*/,
                        unsigned /*shared_bytes*/,
                        CUstream stream,
                        void** parameters,
                        void** /*extra*/) {
  const auto* const kernel = reinterpret_cast<const HostKernel*>(function);
  const auto* const bytes = static_cast<const std::byte*>(parameters[0]);
  if (grid_x == 0 || grid_y == 0 || block_x == 0 || block_x > 1024 || grid_y > 65535) {
    return kInvalidValue;
  }
  auto copy = std::make_shared<std::vector<std::uint64_t>>((kernel->parameter_bytes + 7) / 8);
  std::memcpy(copy->data(), bytes, kernel->parameter_bytes);
  Machine::instance().push(stream_of(stream), [=, card = stream_of(stream)->card] {
    Machine::instance().run(card, *kernel, grid_x, grid_y, block_x, copy->data());
    return true;
  });
  return state_of(stream_of(stream)->card);
}

// ---- graphs ----

CUresult cuGraphCreate(CUgraph* graph, unsigned /*flags*/) {
  *graph = reinterpret_cast<CUgraph>(new Graph());
  return kSuccess;
}
CUresult cuGraphDestroy(CUgraph graph) {
  static_cast<void>(graph);  // its executable uses the nodes
  return kSuccess;
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node,
                                 CUgraph graph,
                                 const CUgraphNode* before,
                                 std::size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* parameters) {
  Graph& own = *reinterpret_cast<Graph*>(graph);
  Node& made = *own.nodes.emplace_back(std::make_unique<Node>());
  made.number = own.nodes.size() - 1;
  made.set(*parameters);
  for (std::size_t i = 0; i < count; ++i) {
    made.before.push_back(reinterpret_cast<Node*>(before[i])->number);
  }
  *node = reinterpret_cast<CUgraphNode>(&made);
  return kSuccess;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec,
                                     CUgraph graph,
                                     unsigned long long /*flags*/) {
  *exec = reinterpret_cast<CUgraphExec>(graph);
  return kSuccess;
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec /*exec*/,
                                           CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters) {
  reinterpret_cast<Node*>(node)->set(*parameters);
  return kSuccess;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  auto copies = std::make_shared<std::vector<Node>>();
  for (const auto& node : reinterpret_cast<Graph*>(exec)->nodes) {
    copies->push_back(*node);
  }
  Machine::instance().push(stream_of(stream), [copies, card = stream_of(stream)->card] {
    run_graph(card, *copies);
    return true;
  });
  return state_of(stream_of(stream)->card);
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  static_cast<void>(exec);
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming,google-build-using-namespace,performance-no-int-to-ptr)
