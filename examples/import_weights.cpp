// Weights of another program become those of a model with other names and another type.
//   import_weights FILE    lists the tensors of a file: safetensors, PyTorch's, or an index
#include <exception>
#include <filesystem>
#include <iostream>
#include <vector>

#include <hearth/hearth.hpp>

struct Classifier {
  hearth::Linear inner, outer;
  HEARTH_MODULE(Classifier, inner, outer)
};

/// Prints name, type and shape of each tensor, or why it cannot be read. Reads no tensor.
void list(const std::filesystem::path& file) {
  const hearth::WeightFile weights = hearth::read_weights(file);
  for (const hearth::WeightFile::Entry& entry : weights.entries()) {
    std::cout << entry.name << " is ";
    if (entry.unsupported.empty()) {
      std::cout << entry.dtype << entry.shape << "\n";
    } else {
      std::cout << "not read: " << entry.unsupported << "\n";
    }
  }
}

/// A file as another program might have written it: fc1 and fc2 in f64, and a count.
void write_foreign_file(const std::filesystem::path& file, const hearth::Device& device) {
  using hearth::DType;
  hearth::write_safetensors(
      file,
      std::vector<hearth::NamedTensor>{{"fc1.weight", ones(device, {8, 4}, DType::f64)},
                                       {"fc1.bias", zeros(device, {8}, DType::f64)},
                                       {"fc2.weight", ones(device, {3, 8}, DType::f64)},
                                       {"fc2.bias", zeros(device, {3}, DType::f64)},
                                       {"steps", zeros(device, {}, DType::i64)}});
}

int main(int argc, char** argv) try {
  if (argc > 1) {
    list(argv[1]);
    return 0;
  }
  const std::filesystem::path file = "imported.safetensors";
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  write_foreign_file(file, device);
  list(file);

  hearth::Generator generator(1);
  Classifier model{hearth::Linear({.in = 4, .out = 8}, device, generator),
                   hearth::Linear({.in = 8, .out = 3}, device, generator)};
  const hearth::LoadedWeights loaded =
      hearth::load_weights(model,
                           file,
                           {.renames = {{"^fc1\\.", "inner."}, {"^fc2\\.", "outer."}},
                            .allow_unused = true,
                            .cast = true});
  std::cout << "loaded; not used: " << loaded.unused.front() << "\n";
  std::cout << model.inner.weight << "\n";
} catch (const std::exception& error) {
  std::cerr << "import_weights: " << error.what() << "\n";
  return 1;
}
