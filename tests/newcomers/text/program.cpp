// A newcomer's texts: classifies messages as spam or not.
#include <hearth/hearth.hpp>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

constexpr std::int64_t kWords = 12;  // words of a message that count

struct Filter {
  hearth::Embedding vectors;
  hearth::Linear head;

  Filter(std::int64_t words, const hearth::Device& device, hearth::Generator& generator)
      : vectors({.count = words, .width = 16}, device, generator),
        head({.in = 16, .out = 2}, device, generator) {}
  hearth::Tensor forward(const hearth::Tensor& text) const {
    return head.forward(mean(vectors.forward(text), 1));
  }
  HEARTH_MODULE(Filter, vectors, head)
};

hearth::ArrayDataset encoded(const hearth::CsvTable& rows, const hearth::Vocabulary& words) {
  std::vector<std::vector<std::int32_t>> texts;
  std::vector<std::int64_t> labels;
  for (const std::string& text : rows.column("text").texts) {
    texts.push_back(words.encode(text));
  }
  for (const std::string& label : rows.column("label").texts) {
    labels.push_back(label == "spam" ? 1 : 0);
  }
  return {hearth::padded_rows(texts, kWords), hearth::HostArray::from(labels)};
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: program MESSAGES.csv\n");
    return 2;
  }
  const hearth::TableSplit rows = hearth::split_rows(hearth::read_csv(argv[1]), 0.8);
  const hearth::Vocabulary words(rows.train.column("text").texts);

  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(1);
  hearth::TrainerOptions options{.epochs = 20, .metrics = {hearth::accuracy_metric()}};
  options.optimizer = hearth::Adam::Config{.learning_rate = 1e-2};
  hearth::Trainer trainer(
      runtime, Filter(words.size(), device, generator), hearth::CrossEntropyLoss(), options);
  trainer.fit(encoded(rows.train, words), encoded(rows.test, words));

  const Filter filter = trainer.model();
  for (const std::string message : {"win a free prize now", "lunch at noon with anna"}) {
    const std::vector<std::vector<std::int32_t>> numbers{words.encode(message)};
    const hearth::Tensor logits = filter.forward(hearth::padded_rows(numbers, kWords).to(device));
    std::printf("%s: %s\n", message.c_str(), argmax(logits).item<int>() == 1 ? "spam" : "ham");
  }
}
