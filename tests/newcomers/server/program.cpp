// Part two: loads the weights and serves requests from many threads, each with a limit.
#include "digits_model.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(0);
  DigitsModel loaded(device, generator);
  hearth::load_weights(loaded, "digits/model.safetensors");
  const hearth::Frozen<DigitsModel> model = hearth::freeze(loaded);
  const hearth::LabelledImages unseen = hearth::make_digits({.count = 400, .first = 5000});

  std::atomic<int> right{0};
  std::atomic<int> late{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      hearth::Stream stream(model.device());
      const hearth::StreamScope scope(stream);
      const hearth::ImageDataset pictures(unseen);
      for (std::int64_t i = client; i < 400; i += 8) {
        // In a real server: the time at which the client needs its answer.
        stream.set_limits({.deadline = hearth::Deadline::in(std::chrono::seconds(30))});
        try {
          const hearth::Examples request = pictures.read(std::vector<std::int64_t>{i});
          const hearth::Tensor input = request.inputs.to(model.device());
          const auto answer = argmax(model->forward(input)).item<std::int64_t>();
          right += answer == request.targets.values<std::int64_t>()[0] ? 1 : 0;
        } catch (const hearth::DeadlineExceeded&) {
          ++late;
        }
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  std::printf("%d of 400 right, %d late\n", right.load(), late.load());
}
