// Classifies newspaper texts. A bag of word vectors and a small network learn from the first rows
// of a CSV file, and are tested on the others.
//   HEARTH_DATA_DIR=... text_classification --devices cpu:0,cpu:1
// reads ag_news/test.csv there: 6,000 rows train. Without the variable it makes up headlines.
// --folder keeps the trained model and its words.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <hearth/hearth.hpp>

using hearth::Tensor;

constexpr std::int64_t kWords = 80;  // words of a text that count
constexpr std::int64_t kClasses = 4;

hearth::CsvTable made_up_news() {
  const std::vector<std::vector<std::string>> subjects = {
      {"minister", "treaty", "border", "election"},
      {"goal", "season", "coach", "final"},
      {"shares", "profit", "bank", "market"},
      {"software", "chip", "robot", "telescope"}};
  const std::vector<std::string> fillers = {"today", "new", "says", "after", "big", "the", "again"};
  std::mt19937 random(3);
  std::string text = "label,title,description\n";
  for (int i = 0; i < 1500; ++i) {
    const std::size_t label = random() % subjects.size();
    std::string words;
    for (int word = 0; word < 6; ++word) {
      words += (random() % 3 == 0 ? subjects[label][random() % 4] : fillers[random() % 7]) + " ";
    }
    text += std::to_string(label + 1) + ",\"" + words + "\",\"" + subjects[label][0] + "\"\n";
  }
  return hearth::parse_csv(text);
}

/// The texts of some rows as word numbers, i32 [rows, kWords], and their classes.
hearth::ArrayDataset encoded(const hearth::CsvTable& rows, const hearth::Vocabulary& words) {
  std::vector<std::vector<std::int32_t>> texts;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.row_count()); ++i) {
    texts.push_back(
        words.encode(rows.column("title").texts[i] + " " + rows.column("description").texts[i]));
    labels.push_back(rows.column("label").integers[i] - 1);
  }
  return {hearth::padded_rows(texts, kWords), hearth::HostArray::from(labels)};
}

struct BagOfWords {
  hearth::Embedding vectors;
  hearth::Dropout dropout;
  hearth::Linear inner, outer;

  BagOfWords(std::int64_t word_count, const hearth::Device& device, hearth::Generator& generator)
      : vectors({.count = word_count, .width = 64}, device, generator),
        dropout({.p = 0.5}),
        inner({.in = 64, .out = 64}, device, generator),
        outer({.in = 64, .out = kClasses}, device, generator) {
    vectors.weight = vectors.weight * 0.1;
  }
  /// Word numbers [n, kWords] to logits [n, kClasses], from the mean vector of a text's words.
  [[nodiscard]] Tensor forward(const Tensor& text, hearth::Mode mode) const {
    const Tensor is_word = cast(text != hearth::Vocabulary::kPadding, hearth::DType::f32);
    const Tensor total = sum(vectors.forward(text) * unsqueeze(is_word, -1), 1);
    const Tensor bag = total / maximum(sum(is_word, 1, {.keep_dims = true}), 1);
    const Tensor hidden = relu(inner.forward(dropout.forward(bag, mode)));
    return outer.forward(dropout.forward(hidden, mode));
  }
  HEARTH_MODULE(BagOfWords, vectors, inner, outer)
};

int main(int argc, char** argv) try {
  const char* const folder = std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe)
  std::vector<std::string> devices = {"auto"};
  std::string weights;
  hearth::TrainerOptions options{.epochs = folder == nullptr ? 3 : 6,
                                 .optimizer = hearth::AdamW::Config{.learning_rate = 2e-3},
                                 .seed = 1,
                                 .batch_size = 64,
                                 .metrics = {hearth::accuracy_metric()}};
  CLI::App app{"Sorts news by the words in them."};
  app.option_defaults()->always_capture_default();
  app.footer(
      "HEARTH_DATA_DIR in the environment: its ag_news/test.csv is read, else news are made up.");
  app.add_option("--devices", devices, "they share each batch; auto: the best")->delimiter(',');
  app.add_option("--epochs", options.epochs, "times over the rows")->check(CLI::Range(1, 1000));
  app.add_option("--seed", options.seed, "of weights and order")->check(CLI::Range(0, 1'000'000));
  app.add_option("--weights", weights, "to begin with, a file or a --folder; without: at random");
  app.add_option("--folder", options.folder, "for weights, figures and a report; without: none");
  CLI11_PARSE(app, argc, argv);

  const hearth::CsvTable news =
      folder == nullptr ? made_up_news()
                        : hearth::read_csv(std::filesystem::path(folder) / "ag_news/test.csv");
  const std::int64_t cut = folder == nullptr ? 1200 : 6000;
  const hearth::CsvTable train_rows = news.slice(0, cut);
  std::vector<std::string> texts = train_rows.column("title").texts;
  const std::vector<std::string>& more = train_rows.column("description").texts;
  texts.insert(texts.end(), more.begin(), more.end());
  const hearth::Vocabulary words(texts, {.max_words = 20'000, .min_count = 2});
  const hearth::ArrayDataset train = encoded(train_rows, words);
  const hearth::ArrayDataset test = encoded(news.slice(cut, news.row_count()), words);
  std::printf("%lld words, %lld texts to train, %lld to test\n",
              static_cast<long long>(words.size()),
              static_cast<long long>(train.size()),
              static_cast<long long>(test.size()));

  hearth::RuntimeOptions runtime_options;
  for (const std::string& name : devices) {
    runtime_options.devices.push_back({.name = name});
  }
  const hearth::Runtime runtime(runtime_options);
  hearth::Generator generator(options.seed);
  BagOfWords model(words.size(), runtime.devices().front(), generator);
  if (!weights.empty()) {
    hearth::load_weights(model, weights);
  }
  hearth::Trainer trainer(runtime, std::move(model), hearth::CrossEntropyLoss(), options);
  const std::chrono::duration<double, std::milli> step = trainer.fit(train, test).median_step;
  if (!options.folder.empty()) {
    words.save(options.folder / "words.txt");  // the weights are useless without their vocabulary
  }
  const double right = trainer.evaluate(test).metrics.front();
  std::printf("a step takes %.2f ms\n", step.count());
  std::printf("the other texts: %.1f %% right\n", right * 100);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "text_classification: %s\n", error.what());
  return 1;
}
