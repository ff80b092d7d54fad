// Test pictures of digits, and a model for users who have trained none. A part of
// concurrent_inference.cpp.
#pragma once

#include "digit_networks.hpp"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <hearth/hearth.hpp>

namespace concurrent_inference {

using digits::Mlp;

/// Trains for two epochs on built-in digits, for users who have not run train_mnist yet.
inline Mlp trained_now(const hearth::Runtime& runtime, const hearth::Device& device) {
  hearth::Generator generator(1);
  Mlp model(28, 28, device, generator);
  const hearth::ImageDataset pictures(hearth::make_digits({.count = 8000, .seed = 1}),
                                      {.mean = 0.1307F, .deviation = 0.3081F});
  hearth::DataLoader loader(pictures, runtime.executor(), {.batch_size = 64});
  hearth::Adam adam({.learning_rate = 1e-3});
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const auto batch = loader.next(device)) {
      auto result = hearth::value_and_grad(model, [&](const Mlp& tracked) {
        return cross_entropy(tracked.forward(batch->inputs), batch->targets);
      });
      adam.step(model, std::move(result.gradients)).get();
    }
  }
  return model;
}

/// The test pictures of train_mnist, on which it does not train.
inline hearth::ImageDataset test_pictures(const std::string& data) {
  constexpr hearth::ImageOptions kLikeTraining{.mean = 0.1307F, .deviation = 0.3081F};
  if (data == "builtin") {
    return hearth::ImageDataset(hearth::make_digits({.count = 2000, .seed = 1, .first = 12000}),
                                kLikeTraining);
  }
  if (data != "mnist") {
    return hearth::ImageDataset(hearth::find_mnist(data).test, kLikeTraining);
  }
  const char* root =
      std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe): before the clients
  if (root == nullptr) {
    throw std::runtime_error(
        "the images of 'mnist' are in mnist/ of the folder HEARTH_DATA_DIR, which is not set; "
        "--data builtin classifies the built-in ones");
  }
  return hearth::ImageDataset(hearth::find_mnist(std::filesystem::path(root) / "mnist").test,
                              kLikeTraining);
}

}  // namespace concurrent_inference
