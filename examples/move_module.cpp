// Moves a module with all its weights to another thread. Its gradients come back as an owned value.
#include <iostream>
#include <utility>

#include <hearth/hearth.hpp>

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(1);
  hearth::Linear model({.in = 4, .out = 2}, device, generator);
  const hearth::Tensor x = hearth::random_normal(device, {3, 4}, generator);

  hearth::publish(model);  // from here on another thread may use it
  x.publish();
  hearth::Promise<hearth::Gradients> promise;
  hearth::Pending<hearth::Gradients> pending = promise.pending();
  const auto worker = runtime.executor().spawn(
      {.name = "worker"}, [model = std::move(model), x, promise = std::move(promise)]() mutable {
        hearth::adopt(model);  // its home is now this thread's stream
        auto result = hearth::value_and_grad(model, [&](const hearth::Linear& tracked) {
          return hearth::mean(hearth::square(tracked.forward(x)));
        });
        result.gradients.publish();
        promise.set_value(std::move(result.gradients));
      });

  hearth::Gradients gradients = std::move(pending).get();
  gradients.adopt();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    std::cout << "gradient of " << gradients.path(i) << ":\n" << gradients[i] << "\n";
  }
  worker->join();
  return 0;
}
