// Models behind an HttpServer, for its tests: a small network, one that returns its input, and one
// that waits at a door. Threads: values.
#pragma once

#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/parallel/http_server.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace hearth::testing {

inline RuntimeOptions one_cpu() {
  return {.devices = {{.name = "cpu:0", .memory_budget_bytes = std::int64_t{256} << 20}}};
}

struct HttpNet {
  Linear layer;

  HttpNet(const Device& device, Generator& generator)
      : layer({.in = 4, .out = 3}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const { return layer.forward(x); }
  HEARTH_MODULE(HttpNet, layer)
};

inline Frozen<HttpNet> http_net(const Device& device, std::uint64_t seed = 1) {
  Generator generator(seed);
  return freeze(HttpNet(device, generator));
}

inline ServedSignature net_signature() {
  return {.inputs = {{.name = "x", .shape = {-1, 4}}},
          .outputs = {{.name = "y", .shape = {-1, 3}}}};
}

/// A door at which forward passes wait.
class HttpDoor final {
 public:
  void pass() {
    ++waiting_;
    is_open_.wait(false);
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }
  void wait_for(int count) const {
    while (waiting_ < count) {
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<bool> is_open_{false};
  std::atomic<int> waiting_{0};
};

/// A model server that returns its inputs; with a door it waits there first.
inline ModelServer<HttpNet> echo_server(const Runtime& runtime,
                                        ServerOptions options = {},
                                        HttpDoor* door = nullptr) {
  options.hang_limit = std::chrono::seconds(100);  // a door may hold a batch for long
  return ModelServer<HttpNet>(runtime,
                              http_net(runtime.device()),
                              std::move(options),
                              [door](const HttpNet&, std::span<const Tensor> inputs) {
                                if (door != nullptr) {
                                  door->pass();
                                }
                                return std::vector<Tensor>(inputs.begin(), inputs.end());
                              });
}

inline ServedSignature echo_signature(DType dtype = DType::f32) {
  const ServedTensor tensor{.name = "x", .dtype = dtype, .shape = {-1, -1}};
  return {.inputs = {tensor}, .outputs = {tensor}};
}

/// Options of a test: any port.
inline HttpOptions any_port() {
  return {.port = 0};
}

}  // namespace hearth::testing
