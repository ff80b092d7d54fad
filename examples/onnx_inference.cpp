// A model from an ONNX file: what is in it, a run by names, and training it further.
//   onnx_inference FILE    reports what a file holds, and what cannot run
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include <hearth/hearth.hpp>

/// One field of a protobuf message that holds bytes, for the small file that the example makes.
std::string field(int number, std::string_view bytes) {
  std::string text;
  text.push_back(static_cast<char>(number * 8 + 2));
  text.push_back(static_cast<char>(bytes.size()));  // below 128
  return text.append(bytes);
}
std::string number(int field, char value) {
  return {static_cast<char>(field * 8), value};
}

/// An input or a result of the graph: a tensor of f32 with two axes.
std::string port(std::string_view name) {
  const std::string shape = field(1, field(2, "rows")) + field(1, field(2, "columns"));
  return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)));
}

/// Writes y = relu(x·w) for w = [[1, -1], [2, 0.5]], as an exporter would.
void write_model(const std::filesystem::path& file) {
  const std::string product =
      field(1, "x") + field(1, "w") + field(2, "h") + field(3, "product") + field(4, "MatMul");
  const std::string relu = field(1, "h") + field(2, "y") + field(3, "cut") + field(4, "Relu");
  const float values[] = {1.0F, -1.0F, 2.0F, 0.5F};
  const std::string_view bytes(reinterpret_cast<const char*>(values), sizeof values);
  const std::string weight =
      number(1, 2) + number(1, 2) + number(2, 1) + field(8, "w") + field(9, bytes);
  // The graph is longer than 127 bytes, so its length takes two.
  const std::string graph = field(1, product) + field(1, relu) + field(2, "two layers") +
                            field(5, weight) + field(11, port("x")) + field(12, port("y"));
  std::string model = number(1, 8);
  model.push_back(static_cast<char>(7 * 8 + 2));
  model.push_back(static_cast<char>(graph.size() % 128 + 128));
  model.push_back(static_cast<char>(graph.size() / 128));
  model += graph + field(8, number(2, 17));
  std::ofstream(file, std::ios::binary) << model;
}

int main(int argc, char** argv) try {
  if (argc > 1) {
    std::cout << hearth::check_onnx(argv[1]).to_string();
    return 0;
  }
  const std::filesystem::path file = "example.onnx";
  write_model(file);
  std::cout << hearth::check_onnx(file).to_string();

  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::OnnxModel model = hearth::load_onnx(file, device);
  const hearth::Tensor x = hearth::Tensor::from(device, {1.0, 2.0, 3.0, -4.0}, {2, 2});
  hearth::OnnxValues results = model.run({{"x", x}});
  std::cout << "y = " << results.at("y").tensor() << "\n";

  // Weights have the names of the file, and train like those of any module.
  hearth::Adam optimizer({.learning_rate = 0.1});
  const hearth::Tensor target = hearth::ones(device, {2, 2});
  for (int step = 0; step < 50; ++step) {
    auto [loss, gradients] = hearth::value_and_grad(model, [&](const hearth::OnnxModel& trained) {
      return hearth::mse_loss(trained.forward(x, hearth::Mode::train), target);
    });
    optimizer.step(model, std::move(gradients)).get();
    if (step % 49 == 0) {
      std::cout << "step " << step << ": loss " << loss.item<float>() << "\n";
    }
  }
  hearth::save_weights(model, "example.safetensors");
  std::cout << hearth::parameter_count(model) << " parameters saved to example.safetensors\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "onnx_inference: " << error.what() << "\n";
  return 1;
}
