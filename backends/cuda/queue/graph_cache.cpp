#include "graph_cache.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/kernels/cuda_compiler.hpp"

namespace hearth::cuda {
namespace {

/// Kernels of a batch below which plain launches cost as little.
constexpr std::size_t kFewKernels = 3;
/// Number of lanes for the kernels between two barriers. The driver takes longer for more edges,
/// and the GPU for fewer (5.5 us for 16 kernels in 4 lanes).
constexpr std::size_t kLanes = 4;
/// Kernels of all graphs. Independent launches come in batches of 1 to 128 kernels, so the graphs
/// of one kernel alone have 8,256.
constexpr std::size_t kMostNodes = 16384;
/// Sequences that came once are forgotten beyond this number.
constexpr std::size_t kMostSequences = 4096;
constexpr std::size_t kWordsOfKernel = 3;

CUDA_KERNEL_NODE_PARAMS node_of(gpu::Dispatch& dispatch, void** parameters) noexcept {
  const CudaKernel& kernel = kernel_of(dispatch.kernel);
  *parameters = parameters_of(dispatch);
  return {.func = kernel.function,
          .gridDim = {dispatch.grid.x, dispatch.grid.y, dispatch.grid.z},
          .blockDim = {kernel.threads, 1, 1},
          .sharedMemBytes = kernel.shared_bytes,
          .kernelParams = parameters,
          .extra = nullptr,
          .kern = nullptr,
          .ctx = nullptr};
}

}  // namespace

void* parameters_of(gpu::Dispatch& dispatch) noexcept {
  if (!dispatch.is_in_ring) {
    return dispatch.parameters.data();
  }
  void* address = nullptr;
  std::memcpy(&address, dispatch.parameters.data(), sizeof address);
  return address;
}

struct GraphCache::Graph {
  struct Node {
    CUgraphNode handle = nullptr;
    std::uint32_t parameter_bytes = 0;
    std::array<std::byte, gpu::kPushBytes> parameters = {};  ///< Parameters of the last launch.
  };

  std::shared_ptr<const CudaDevice> device;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  std::vector<Node> nodes;
  std::uint64_t last_launch = 0;

  explicit Graph(std::shared_ptr<const CudaDevice> its_device) : device(std::move(its_device)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    const DriverApi& api = device->api();
    if (exec != nullptr) {
      api.cuGraphExecDestroy(exec);
    }
    if (graph != nullptr) {
      api.cuGraphDestroy(graph);
    }
  }
};

GraphCache::GraphCache(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
GraphCache::~GraphCache() = default;

std::size_t GraphCache::WordsHash::operator()(const Words& words) const noexcept {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
  }
  return hash;
}

Result<bool> GraphCache::launch(std::span<gpu::Dispatch> kernels, CUstream stream) {
  if (kernels.size() < kFewKernels) {
    return false;
  }
  key_.clear();
  for (const gpu::Dispatch& each : kernels) {
    key_.push_back(static_cast<std::uint64_t>(each.kernel));
    key_.push_back(std::uint64_t{each.grid.x} << 32U | each.grid.y);
    key_.push_back(std::uint64_t{each.grid.z} << 1U | (each.is_behind_barrier ? 1U : 0U));
  }
  const auto found = graphs_.find(key_);
  if (found == graphs_.end()) {
    if (graphs_.size() - graph_count_ >= kMostSequences) {
      std::erase_if(graphs_, [](const auto& each) { return each.second == nullptr; });
    }
    graphs_.try_emplace(key_);
    return false;
  }
  if (found->second == nullptr) {
    auto made = std::make_unique<Graph>(device_);
    HEARTH_TRY_STATUS(build(*made, kernels));
    found->second = std::move(made);
    ++graph_count_;
    node_count_ += kernels.size();
  } else {
    HEARTH_TRY_STATUS(update(*found->second, kernels));
  }
  Graph& graph = *found->second;
  graph.last_launch = ++launches_;
  while (node_count_ > kMostNodes && graph_count_ > 1) {
    drop_oldest();
  }
  const CUresult result =
      device_->checked([&] { return device_->api().cuGraphLaunch(graph.exec, stream); });
  if (result != kSuccess) {
    return device_->failed("cuGraphLaunch", result);
  }
  return true;
}

// The first kernel of a lane in a section waits for the last ones of all lanes before the barrier.
Status GraphCache::build(Graph& graph, std::span<gpu::Dispatch> kernels) const {
  const DriverApi& api = device_->api();
  CUresult result = api.cuGraphCreate(&graph.graph, 0);
  if (result != kSuccess) {
    graph.graph = nullptr;
    return device_->failed("cuGraphCreate", result);
  }
  std::vector<CUgraphNode> before;
  std::array<CUgraphNode, kLanes> lanes{};
  std::size_t place = 0;
  for (gpu::Dispatch& each : kernels) {
    if (each.is_behind_barrier && place > 0) {
      before.assign(lanes.begin(),
                    lanes.begin() + static_cast<std::ptrdiff_t>(std::min(place, kLanes)));
      lanes = {};
      place = 0;
    }
    CUgraphNode& lane = lanes[place++ % kLanes];
    const std::span<const CUgraphNode> waits =
        lane != nullptr ? std::span<const CUgraphNode>(&lane, 1) : std::span(before);
    Graph::Node& node = graph.nodes.emplace_back();
    void* parameters = nullptr;
    const CUDA_KERNEL_NODE_PARAMS of_node = node_of(each, &parameters);
    result = api.cuGraphAddKernelNode_v2(
        &node.handle, graph.graph, waits.data(), waits.size(), &of_node);
    if (result != kSuccess) {
      return device_->failed("cuGraphAddKernelNode", result);
    }
    lane = node.handle;
    node.parameter_bytes = each.is_in_ring ? 0 : each.parameter_bytes;
    node.parameters = each.parameters;
  }
  result = api.cuGraphInstantiateWithFlags(&graph.exec, graph.graph, 0);
  if (result != kSuccess) {
    graph.exec = nullptr;
    return device_->failed("cuGraphInstantiate", result);
  }
  return {};
}

// Work that is already queued keeps the parameters that it was launched with.
Status GraphCache::update(Graph& graph, std::span<gpu::Dispatch> kernels) const {
  const DriverApi& api = device_->api();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    gpu::Dispatch& each = kernels[i];
    Graph::Node& node = graph.nodes[i];
    if (!each.is_in_ring && each.parameter_bytes == node.parameter_bytes &&
        std::memcmp(each.parameters.data(), node.parameters.data(), node.parameter_bytes) == 0) {
      continue;
    }
    void* parameters = nullptr;
    const CUDA_KERNEL_NODE_PARAMS of_node = node_of(each, &parameters);
    const CUresult result =
        api.cuGraphExecKernelNodeSetParams_v2(graph.exec, node.handle, &of_node);
    if (result != kSuccess) {
      return device_->failed("cuGraphExecKernelNodeSetParams", result);
    }
    node.parameter_bytes = each.is_in_ring ? 0 : each.parameter_bytes;
    node.parameters = each.parameters;
  }
  return {};
}

// Drops the graph that was launched longest ago.
void GraphCache::drop_oldest() {
  auto oldest = graphs_.end();
  std::uint64_t least = launches_ + 1;
  for (auto each = graphs_.begin(); each != graphs_.end(); ++each) {
    const Graph* const graph = each->second.get();
    if (graph != nullptr && graph->last_launch < least) {
      least = graph->last_launch;
      oldest = each;
    }
  }
  if (oldest != graphs_.end()) {
    --graph_count_;
    node_count_ -= oldest->first.size() / kWordsOfKernel;
    graphs_.erase(oldest);
  }
}

}  // namespace hearth::cuda
