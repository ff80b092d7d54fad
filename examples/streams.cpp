// Streams and futures: ordered queues of ops, and results that arrive later.
#include <iostream>
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  const hearth::Tensor x = hearth::arange(device, 0, 1000);

  // Each thread has a default stream on every device. A server creates one stream for each client.
  hearth::Stream first(device);
  hearth::Stream second(device);
  std::vector<hearth::Pending<double>> answers;
  {
    const hearth::StreamScope scope(first);
    answers.push_back(hearth::sum(hearth::square(x)).item_later());
  }
  {
    const hearth::StreamScope scope(second);
    answers.push_back(hearth::mean(hearth::sqrt(x)).item_later());
  }
  // No call has waited so far; both streams run side by side.
  std::cout << "sum of squares " << answers[0].get() << ", mean of roots " << answers[1].get()
            << "\n";

  // A continuation runs on the runtime's own thread when the value has arrived.
  hearth::Pending<std::string> text = hearth::max(x).item_later().then(
      runtime.continuations(), [](double value) { return "largest: " + std::to_string(value); });
  std::cout << std::move(text).get() << "\n";

  // A failure affects the tensors that depend on it, and no others.
  const hearth::Tensor logits = hearth::zeros(device, {2, 3});
  const hearth::Tensor wrong =
      hearth::Tensor::from(device, {std::int64_t{1}, std::int64_t{7}}, {2});
  const hearth::Tensor loss =
      hearth::cross_entropy(logits, wrong);  // class 7 of 3: the device finds it later
  try {
    std::cout << loss.item() << "\n";
  } catch (const hearth::DeviceError& error) {
    std::cout << "as expected: " << error.what() << "\n";
  }
  std::cout << "the device works on: " << hearth::sum(x).item() << "\n";
  return 0;
}
