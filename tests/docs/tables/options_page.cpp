#include "options_page.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "op_page.hpp"

namespace hearth::docs {
namespace {

constexpr std::string_view kHead = R"(# Options

Every option struct that a program fills in, with all its fields. The build writes this page from
the headers (`ninja docs_pages`). The options of ops are on [the page of ops](ops.md).

- **The order of a table is the order of the fields.** C++20 requires designated initialisers in
  this order: `{.batch_size = 32, .seed = 7}`, never reversed. The compiler's message names the
  struct, which is a heading here or on the page of ops
  ([an example](errors.md#options-in-another-order)).
- A field that an initialiser omits has its default. A field without a default must be given.
- A `Deadline` is a point in time: `Deadline::in(std::chrono::seconds(5))`. A
  `std::chrono::nanoseconds` is a duration; `kDefaultWait` is 60 s.
- A `Size2d` is one number for both axes, or `{height, width}`; a `Size3d` one for all three, or
  `{depth, height, width}`. A `PerAxis` is one number for all axes, or one for each: `{32, 48}`.

)";

struct Entry {
  std::string name;  // as in the headers: "LoaderOptions", "Linear::Config", or an enumeration
  std::string use;   // the place of its use
};
struct Chapter {
  std::string title;
  std::vector<Entry> entries;
};

std::vector<Chapter> chapters() {
  return {
      {"Runtime and devices",
       {{"RuntimeOptions",
         "`Runtime runtime({…})`. [Environment variables](settings.md) set what the program does "
         "not."},
        {"DeviceOptions", "An entry of `RuntimeOptions::devices`."},
        {"MemoryPooling", "`DeviceOptions::memory`."},
        {"Fusion", "`RuntimeOptions::fusion`."},
        {"FaultPlan",
         "`DeviceOptions::faults`: [how your program bears "
         "it](errors.md#how-your-program-bears-it)."},
        {"SimSchedule", "`DeviceOptions::sim_schedule`."}}},
      {"Streams and waits",
       {{"StreamOptions", "`Stream stream(device, {…})`: [requests with a limit](servers.md)."},
        {"StreamLimits", "`stream.set_limits({…})`."},
        {"Priority", "`StreamOptions::priority`."},
        {"WaitOptions",
         "`tensor.to_vector<float>({…})`, `item({…})`, `pending.get({…})` and other waits."}}},
      {"Servers",
       {{"ServerOptions",
         "`ModelServer server(runtime, model, {…})`: "
         "[a server of batches](servers.md#a-server-of-batches)."},
        {"RowProof", "`ServerOptions::proof`."},
        {"RequestOptions", "`server.ask(inputs, {…})`, `server.answer(inputs, {…})`."},
        {"HttpOptions", "`HttpServer http(runtime, {…})`: [over HTTP](servers.md#over-http)."},
        {"ServedSignature", "`http.add(name, server, {…})`."},
        {"ServedTensor", "An entry of a `ServedSignature`."}}},
      {"Tensors", {{"Range", "`slice(x, axis, {…})`, and `x[{…}]` with an entry for each axis."}}},
      {"Layers",
       {{"Linear::Config",
         "`Linear({…}, device, generator)`. [The table of layers](layers.md) has shapes and "
         "tensors."},
        {"Embedding::Config", "`Embedding({…}, device, generator)`."},
        {"Conv2d::Config", "`Conv2d({…}, device, generator)`."},
        {"Conv1d::Config", "`Conv1d({…}, device, generator)`."},
        {"Conv3d::Config", "`Conv3d({…}, device, generator)`."},
        {"ConvTranspose2d::Config", "`ConvTranspose2d({…}, device, generator)`."},
        {"AdaptiveAvgPool2d",
         "`AdaptiveAvgPool2d({…})`. `MaxPool2d` and `AvgPool2d` take "
         "[Pool2dOptions](ops.md#pool2doptions), those of one and three axes\n"
         "[Pool1dOptions](ops.md#pool1doptions) and [Pool3dOptions](ops.md#pool3doptions). "
         "`Upsample` takes\n"
         "[InterpolateOptions](ops.md#interpolateoptions)."},
        {"Pad1d", "`Pad1d({…})`; its `options` are [PadOptions](ops.md#padoptions)."},
        {"Pad2d", "`Pad2d({…})`; its `options` are [PadOptions](ops.md#padoptions)."},
        {"LayerNorm::Config", "`LayerNorm({…}, device)`."},
        {"RmsNorm::Config", "`RmsNorm({…}, device)`."},
        {"GroupNorm::Config", "`GroupNorm({…}, device)`."},
        {"InstanceNorm::Config", "`InstanceNorm({…}, device)`."},
        {"BatchNormConfig", "`BatchNorm1d({…}, device)`, `BatchNorm2d` and `BatchNorm3d`."},
        {"LeakyRelu", "`LeakyRelu({…})`."},
        {"Elu", "`Elu({…})`."},
        {"Celu", "`Celu({…})`."},
        {"Softplus", "`Softplus({…})`."},
        {"Gelu", "`Gelu({…})`."},
        {"Dropout::Config", "`Dropout({…})`."},
        {"Flatten",
         "`Flatten({…})`. The function `flatten(x)` begins with axis 0, the layer with axis 1, as "
         "in\n"
         "PyTorch."},
        {"MultiHeadAttention::Config", "`MultiHeadAttention({…}, device, generator)`."},
        {"KeyValueCache",
         "`attention.step(x, cache)`: the keys and values of the text so far. It begins as `{}` "
         "and\n"
         "grows with each call."},
        {"RotaryOptions", "`MultiHeadAttention::Config::rotary`, `rotary_embedding(x, {…})`."},
        {"RotaryLayout", "`RotaryOptions::layout`."},
        {"TransformerConfig",
         "`TransformerEncoderLayer({…}, device, generator)` and `TransformerDecoderLayer`."},
        {"FeedForwardActivation", "`TransformerConfig::activation`."},
        {"DecoderOptions", "`decoder.forward(x, memory, mode, {…})`."},
        {"Lora::Config", "`Lora(linear, {…}, generator)`."},
        {"RecurrentConfig", "`Lstm({…}, device, generator)` and `Gru({…}, device, generator)`."},
        {"Rnn::Config", "`Rnn({…}, device, generator)`."},
        {"RecurrentOptions", "`gru.run(x, mode, {…})`, and of an `Rnn`."},
        {"LstmOptions", "`lstm.run(x, mode, {…})`."}}},
      {"Optimizers and gradients",
       {{"Sgd::Config", "`Sgd({…})`."},
        {"Adam::Config", "`Adam({…})`."},
        {"AdamW::Config", "`AdamW({…})`."},
        {"RmsPropRule", "`RmsProp({…})`, `TrainerOptions::optimizer = RmsProp::Config{…}`."},
        {"AdagradRule", "`Adagrad({…})`, `Adagrad::Config{…}`."},
        {"AdadeltaRule", "`Adadelta({…})`, `Adadelta::Config{…}`."},
        {"RAdamRule", "`RAdam({…})`, `RAdam::Config{…}`."},
        {"NAdamRule", "`NAdam({…})`, `NAdam::Config{…}`."},
        {"LionRule", "`Lion({…})`, `Lion::Config{…}`."},
        {"LambRule", "`Lamb({…})`, `Lamb::Config{…}`."},
        {"MuonRule", "`Muon({…})`, `Muon::Config{…}`."},
        {"MuonScale", "`MuonRule::scale`."},
        {"ParameterGroup",
         "An entry of an optimizer's `groups`: settings for the parameters that its pattern "
         "matches.\n"
         "If several groups set one field of a parameter, the last group counts."},
        {"GradientClip",
         "`clip(gradients, {…})`, `TrainerOptions::clip`, `DataParallelOptions::clip`."},
        {"Precision",
         "`TrainerOptions::precision`, `DataParallelOptions::precision`, `LossScaler`: "
         "[mixed precision](training.md#sixteen-bits-mixed-precision)."},
        {"LossScaling", "`Precision::loss_scaling`."},
        {"RecomputeOptions", "`RecomputeScope scope({…})`."}}},
      {"Learning rates",
       {{"ConstantRate",
         "`TrainerOptions::schedule`: [learning rates](training.md#learning-rates)."},
        {"LinearRate", "`TrainerOptions::schedule`."},
        {"CosineRate", "`TrainerOptions::schedule`."},
        {"OneCycleRate", "`TrainerOptions::schedule`."},
        {"StepRate", "`TrainerOptions::schedule`."},
        {"ExponentialRate", "`TrainerOptions::schedule`."},
        {"FunctionRate", "`TrainerOptions::schedule`."},
        {"PlateauRate",
         "`TrainerOptions::schedule`, and `Plateau plateau({…}, goal)` in a loop of your own."}}},
      {"Data",
       {{"LoaderOptions",
         "`DataLoader loader(data, runtime.executor(), {…})`, and `ShardedLoader`."},
        {"ExampleOrder",
         "`LoaderOptions::order`, `TrainerOptions::order`: [orders of "
         "examples](training.md#orders-of-the-training-data)."},
        {"WeightedOrderOptions", "`weighted_order(weights, {…})`."},
        {"BucketedOrderOptions", "`bucketed_order(lengths, {…})`."},
        {"LoaderCursor", "`loader.seek({…})`: the position to continue from."},
        {"DigitOptions", "`make_digits({…})`."},
        {"ImageOptions", "`ImageDataset(images, {…})`."},
        {"ImageFolderOptions", "`ImageFolder(folder, {…})`."},
        {"CsvOptions", "`read_csv(file, {…})` and `parse_csv(text, {…})`."},
        {"CsvType", "A value of `CsvOptions::types`."},
        {"TableOptions", "`TableEncoder(table, {…})`."},
        {"CategoryCode", "`TableOptions::categories`."},
        {"MissingValue", "`TableOptions::missing`."},
        {"UnknownCategory", "`TableOptions::unknown`."},
        {"VocabularyOptions", "`Vocabulary(texts, {…})`."},
        {"TextUnit", "`VocabularyOptions::unit`."},
        {"WindowOptions", "`TokenWindows(tokens, {…})`."}}},
      {"Files of weights",
       {{"LoadWeightsOptions", "`load_weights(model, file, {…})`."},
        {"WeightRename", "An entry of `LoadWeightsOptions::renames`."},
        {"OnnxRunOptions", "`model.run(inputs, {…})` of an `OnnxModel`."},
        {"OnnxInput", "`save_onnx(model, file, {{…}}, forward)`: an entry for each input."}}},
      {"Generation",
       {{"SamplerOptions", "`TokenSampler({…})`: [texts from a model](generation.md)."},
        {"BeamOptions", "`beam_search(first, step, {…})`."}}},
      {"Training",
       {{"TrainerOptions", "`Trainer trainer(runtime, model, loss, {…})`."},
        {"EarlyStopping", "`TrainerOptions::early_stopping`."},
        {"TrainerCallback", "An entry of `TrainerOptions::callbacks`."},
        {"RunControl", "The second argument of a callback."},
        {"ConsoleOptions", "`TrainerOptions::console`."},
        {"ConsoleStyle", "`ConsoleOptions::style`, and `HEARTH_CONSOLE`."},
        {"EvaluationMetric",
         "An entry of `TrainerOptions::metrics`: [one of your own](training.md#metrics)."},
        {"Goal", "`EvaluationMetric::goal`."},
        {"HuberOptions", "`HuberLoss({…})`."},
        {"SmoothL1Options", "`SmoothL1Loss({…})`."}}},
      {"Several devices",
       {{"DataParallelOptions",
         "`DataParallel(runtime, model, {…})`, and `TrainerOptions::parallel`."},
        {"DeviceLossPolicy", "`DataParallelOptions::on_loss`."},
        {"ProcessGroupOptions",
         "`ProcessGroup::from_environment({…})`: [many machines](many-machines.md)."},
        {"WorkerOptions", "`DeviceWorker(runtime, device, {…})`, for a trainer of your own."},
        {"CoordinatorOptions",
         "`StepCoordinator(executor, engine, {…})`, for a trainer of your own."}}},
      {"Looking inside",
       {{"RecordOptions", "`RecordScope scope(runtime, {…})`."},
        {"RecordedBytes", "`RecordOptions::bytes`."},
        {"ReplayOptions", "`replay(runtime, file, {…})`."},
        {"TraceOptions", "`TraceScope scope(runtime, file, {…})`."}}},
      {"Kernels and update rules of your own",
       {{"CustomKernelConfig", "`custom_op({…})`: [kernels](kernels.md)."},
        {"CustomInput", "An entry of `CustomKernelConfig::inputs`."},
        {"CustomNumber", "An entry of `CustomKernelConfig::numbers`."},
        {"GpuKernel", "`CustomKernelConfig::glsl` and `cuda`."},
        {"RuleConfig", "Any rule without its type, as `OptimizerConfig` holds it."},
        {"UpdateFormula",
         "The result of a rule's `formula()`: [an optimizer of your "
         "own](training.md#an-optimizer-of-your-own)."},
        {"UpdateOperands", "The argument of `UpdateFormula::update` and `inputs`."},
        {"OptimizerSetting", "An entry of a rule's `settings()`."},
        {"UpdateRule::Config", "`UpdateRule({…}, fn)`."}}},
  };
}

// Structs of the library that no program fills in.
const std::set<std::string, std::less<>> kInternal{
    "PendingOptions", "LogOptions", "ThreadOptions", "RuleConfig"};

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

bool is_options(const DeclaredStruct& declared) {
  return declared.has_config || declared.name.ends_with("Options") ||
         declared.name.ends_with("Config") || declared.name.ends_with("Limits");
}

std::string full_name(const DeclaredStruct& declared) {
  return declared.name + (declared.has_config ? "::Config" : "");
}

std::string of_entry(const std::string& name,
                     const std::vector<DeclaredStruct>& structs,
                     const std::vector<DeclaredEnum>& enums) {
  if (const auto found = std::ranges::find(structs, name, full_name); found != structs.end()) {
    return field_table(*found);
  }
  if (const auto found = std::ranges::find(enums, name, &DeclaredEnum::name);
      found != enums.end()) {
    return value_table(*found);
  }
  throw std::runtime_error("no header has " + name + ", which options_page.cpp lists");
}

}  // namespace

std::string field_table(const DeclaredStruct& declared) {
  std::string text = "| field | type | default | meaning |\n|---|---|---|---|\n";
  for (const DeclaredField& field : declared.fields) {
    if (field.doc.empty()) {
      throw std::runtime_error(declared.name + "::" + field.name + " has no comment in its header");
    }
    text += "| `" + field.name + "` | `" + cell(field.type) + "` | " +
            (field.value.empty() ? "" : "`" + cell(field.value) + "`") + " | " + cell(field.doc) +
            " |\n";
  }
  return text;
}

std::string value_table(const DeclaredEnum& declared) {
  std::string text = "| value | meaning |\n|---|---|\n";
  for (const DeclaredField& value : declared.enumerators) {
    if (value.doc.empty()) {
      throw std::runtime_error(declared.name + "::" + value.name + " has no comment in its header");
    }
    text += "| `" + value.name + "` | " + cell(value.doc) + " |\n";
  }
  return text;
}

std::string options_page(const std::map<std::string, std::string>& headers) {
  std::vector<DeclaredStruct> structs;
  std::vector<DeclaredEnum> enums;
  for (const auto& [path, text] : headers) {
    if (path == "runtime/ops.hpp" ||
        std::ranges::find(kOpSections, path, &OpSection::header) != kOpSections.end()) {
      continue;  // they are on the page of ops
    }
    std::ranges::move(structs_in(text), std::back_inserter(structs));
    std::ranges::move(enums_in(text), std::back_inserter(enums));
  }
  std::string page(kHead);
  std::set<std::string> done;
  for (const Chapter& chapter : chapters()) {
    page += "## " + chapter.title + "\n\n";
    for (const Entry& entry : chapter.entries) {
      page += "### " + entry.name + "\n\n" + entry.use + "\n\n" +
              of_entry(entry.name, structs, enums) + "\n";
      done.insert(entry.name);
    }
  }
  for (const DeclaredStruct& declared : structs) {
    const std::string name = full_name(declared);
    if (is_options(declared) && !done.contains(name) && !kInternal.contains(name)) {
      throw std::runtime_error(name + " is in no chapter of options_page.cpp");
    }
  }
  page.pop_back();
  return page;
}

}  // namespace hearth::docs
