#include "layer_page.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

#include <hearth/modules/activations.hpp>
#include <hearth/modules/batch_norm1d.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/batch_norm3d.hpp>
#include <hearth/modules/conv1d.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/conv3d.hpp>
#include <hearth/modules/conv_transpose2d.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/embedding.hpp>
#include <hearth/modules/flatten.hpp>
#include <hearth/modules/group_norm.hpp>
#include <hearth/modules/gru.hpp>
#include <hearth/modules/identity.hpp>
#include <hearth/modules/instance_norm.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/lora.hpp>
#include <hearth/modules/lstm.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/multi_head_attention.hpp>
#include <hearth/modules/padding.hpp>
#include <hearth/modules/pooling.hpp>
#include <hearth/modules/rms_norm.hpp>
#include <hearth/modules/rnn.hpp>
#include <hearth/modules/transformer_decoder_layer.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/modules/upsample.hpp>

#include "header_text.hpp"

namespace hearth::docs {
namespace {

constexpr std::string_view kHead = R"(# Layers

The modules of `<hearth/modules/...>`, each in a header named after it or its family. The build
writes this page (`ninja docs_pages`) from the headers, which have more detail, and from an instance
of each layer.

- A layer with random weights takes a generator: `Linear({.in = 4, .out = 2}, device, generator)`.
- A layer whose weights start as ones and zeros takes none: `LayerNorm({.shape = {4}}, device)`.
- A layer without tensors takes no device either: `Relu{}` or `Dropout({.p = 0.1})`.
- `Sequential(a, b, c)` applies layers one after another. A struct with `HEARTH_MODULE` is a layer
  of your own.

The options have their defaults beside them.

| layer | description | options | shapes | tensors |
|---|---|---|---|---|
)";

// Distinct sizes that identify the axes.
using AxisNames = std::map<std::int64_t, std::string>;

struct LayerExample {
  std::string name;
  std::string what;
  std::function<std::string(const Device& device)> tensors;
};

std::string axis_name(std::int64_t size, const AxisNames& names) {
  const auto found = names.find(size);
  return found != names.end() ? found->second : std::to_string(size);
}

template <class Layer>
std::string tensors_of(const Layer& layer, const AxisNames& names) {
  std::string text;
  layer.visit("", [&]<class Part>(const std::string& path, const Part& tensor) {
    text += (text.empty() ? "`" : "; `") + path + "` [";
    for (int axis = 0; axis < tensor.rank(); ++axis) {
      text += (axis == 0 ? "" : ", ") + axis_name(tensor.size(axis), names);
    }
    text += std::is_same_v<Part, Buffer> ? "], not trained" : "]";
  });
  return text;
}

// A layer with weights from a generator.
template <class Layer>
LayerExample drawn(std::string name,
                   std::string what,
                   typename Layer::Config config,
                   AxisNames names) {
  return {std::move(name), std::move(what), [config, names](const Device& device) {
            Generator generator(1);
            return tensors_of(Layer(config, device, generator), names);
          }};
}
template <class Layer>
LayerExample constant(std::string name,
                      std::string what,
                      typename Layer::Config config,
                      AxisNames names) {
  return {std::move(name), std::move(what), [config, names](const Device& device) {
            return tensors_of(Layer(config, device), names);
          }};
}
LayerExample plain(std::string name, std::string what) {
  return {std::move(name), std::move(what), [](const Device&) { return std::string(); }};
}

std::vector<LayerExample> layer_examples() {
  const AxisNames in_out{{3, "in"}, {5, "out"}};
  return {
      drawn<Linear>("Linear", "x·Wᵀ + b", {.in = 3, .out = 5}, in_out),
      drawn<Embedding>("Embedding",
                       "the row of a table for each index",
                       {.count = 3, .width = 5},
                       {{3, "count"}, {5, "width"}}),
      drawn<Conv2d>("Conv2d",
                    "2-D convolution of images",
                    {.in = 3, .out = 5, .kernel = {7, 11}},
                    {{3, "in/groups"}, {5, "out"}, {7, "kernel[0]"}, {11, "kernel[1]"}}),
      drawn<Conv1d>("Conv1d",
                    "1-D convolution",
                    {.in = 3, .out = 5, .kernel = 7},
                    {{3, "in/groups"}, {5, "out"}, {7, "kernel"}}),
      drawn<Conv3d>(
          "Conv3d",
          "3-D convolution of volumes",
          {.in = 3, .out = 5, .kernel = {7, 11, 13}},
          {{3, "in/groups"}, {5, "out"}, {7, "kernel[0]"}, {11, "kernel[1]"}, {13, "kernel[2]"}}),
      drawn<ConvTranspose2d>("ConvTranspose2d",
                             "transposed 2-D convolution, which enlarges images",
                             {.in = 3, .out = 5, .kernel = {7, 11}},
                             {{3, "in"}, {5, "out/groups"}, {7, "kernel[0]"}, {11, "kernel[1]"}}),
      plain("MaxPool2d", "the largest value of each window"),
      plain("AvgPool2d", "the mean of each window"),
      plain("MaxPool1d", "the largest value of each window of a sequence"),
      plain("AvgPool1d", "the mean of each window of a sequence"),
      plain("MaxPool3d", "the largest value of each window of a volume"),
      plain("AvgPool3d", "the mean of each window of a volume"),
      plain("AdaptiveAvgPool2d", "the means of a fixed number of windows"),
      plain("Upsample", "resizes sequences, pictures or volumes"),
      plain("Pad1d", "padding at the ends of the last axis"),
      plain("Pad2d", "padding at the edges of an image"),
      constant<LayerNorm>("LayerNorm",
                          "(x - mean)/deviation·weight + bias over the last axes",
                          {.shape = {3}},
                          {{3, "shape"}}),
      constant<RmsNorm>("RmsNorm",
                        "x/√(mean of squares)·weight over the last axes",
                        {.shape = {3}},
                        {{3, "shape"}}),
      constant<GroupNorm>("GroupNorm",
                          "normalises each example's groups of channels to mean 0 and deviation 1",
                          {.channels = 3},
                          {{3, "channels"}}),
      constant<BatchNorm1d>("BatchNorm1d",
                            "normalises each channel of vectors or sequences over the batch",
                            {.channels = 3},
                            {{3, "channels"}}),
      constant<BatchNorm2d>("BatchNorm2d",
                            "normalises each channel to mean 0 and deviation 1 over the batch",
                            {.channels = 3},
                            {{3, "channels"}}),
      constant<InstanceNorm>("InstanceNorm",
                             "normalises each channel of each example to mean 0 and deviation 1",
                             {.channels = 3, .affine = true, .track_running_stats = true},
                             {{3, "channels"}}),
      constant<BatchNorm3d>("BatchNorm3d",
                            "normalises each channel of volumes over the batch",
                            {.channels = 3},
                            {{3, "channels"}}),
      plain("Relu", "x where it is above 0, else 0"),
      plain("LeakyRelu", "x where it is above 0, else slope·x"),
      plain("Gelu", "x·Φ(x)"),
      plain("Silu", "x·sigmoid(x)"),
      plain("Elu", "x where it is above 0, else alpha·(exp(x) - 1)"),
      plain("Selu", "elu with the scale and alpha of self-normalising networks"),
      plain("Celu", "x where it is above 0, else alpha·(exp(x/alpha) - 1)"),
      plain("Softplus", "log(1 + exp(beta·x))/beta"),
      plain("Mish", "x·tanh(softplus(x))"),
      plain("Hardsigmoid", "x/6 + 1/2, limited to [0, 1]"),
      plain("Hardswish", "x·hardsigmoid(x)"),
      plain("Softsign", "x/(1 + |x|)"),
      plain("Tanh", "tanh(x)"),
      plain("Sigmoid", "1/(1 + exp(-x))"),
      plain("Dropout", "in training, zeroes random elements and scales up the others"),
      plain("Flatten", "joins axes into one"),
      plain("Identity", "returns its input"),
      {"Lora",
       "a frozen Linear with a trained low-rank change of its weight",
       [](const Device& device) {
         Generator generator(1);
         const Linear base({.in = 3, .out = 5}, device, generator);
         return tensors_of(Lora(base, {.rank = 2}, generator),
                           {{3, "in"}, {5, "out"}, {2, "rank"}});
       }},
      drawn<MultiHeadAttention>("MultiHeadAttention",
                                "attention, with a cache of keys and values for generation",
                                {.width = 4, .heads = 2},
                                {{4, "width"}, {12, "3·width"}}),
      drawn<TransformerEncoderLayer>(
          "TransformerEncoderLayer",
          "attention and two linear layers, with norms and residual sums",
          {.width = 4, .heads = 2, .inner = 7},
          {{4, "width"}, {12, "3·width"}, {7, "inner"}}),
      drawn<TransformerDecoderLayer>(
          "TransformerDecoderLayer",
          "self-attention, attention to a memory and two linear layers, with norms and sums",
          {.width = 4, .heads = 2, .inner = 7},
          {{4, "width"}, {12, "3·width"}, {7, "inner"}}),
      drawn<Rnn>("Rnn",
                 "recurrent layer without gates",
                 {.in = 3, .hidden = 5},
                 {{3, "in"}, {5, "hidden"}}),
      drawn<Lstm>("Lstm",
                  "recurrent layer with long short-term memory",
                  {.in = 3, .hidden = 5},
                  {{3, "in"}, {5, "hidden"}, {20, "4·hidden"}}),
      drawn<Gru>("Gru",
                 "recurrent layer with gated units",
                 {.in = 3, .hidden = 5},
                 {{3, "in"}, {5, "hidden"}, {15, "3·hidden"}}),
  };
}

// Parts of other layers, which no program makes by itself.
const std::set<std::string, std::less<>> kParts{"RecurrentWeights", "Type", "Classifier"};

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

class Headers {
 public:
  explicit Headers(const std::map<std::string, std::string>& headers) {
    for (const auto& [name, text] : headers) {
      for (DeclaredStruct& declared : structs_in(text)) {
        structs_.emplace(declared.name, std::move(declared));
      }
      for (std::string& module : modules_in(text)) {
        modules_.insert(std::move(module));
      }
    }
  }

  [[nodiscard]] const std::set<std::string>& modules() const noexcept { return modules_; }

  [[nodiscard]] std::string options_of(const std::string& layer, bool has_config) const {
    const DeclaredStruct& declared = at(layer);
    const DeclaredStruct& options = declared.config.empty() ? declared : at(declared.config);
    std::string text;
    for (const DeclaredField& field : options.fields) {
      const bool is_needed = field.value == "0" && field.doc.find("0:") == std::string::npos &&
                             !field.name.ends_with("padding") && field.name != "key_heads";
      text += (text.empty() ? "`" : ", `") + field.name;
      if (field.value != "{}" && !field.value.empty() && !(has_config && is_needed)) {
        text += " = " + field.value;
      }
      text += "`";
    }
    return text;
  }
  [[nodiscard]] std::string shapes_of(const std::string& layer) const {
    const DeclaredStruct& declared = at(layer);
    const std::string own = shapes_in(declared.lines);
    return own.empty() ? shapes_in(declared.doc) : own;
  }

 private:
  [[nodiscard]] const DeclaredStruct& at(const std::string& name) const {
    const auto found = structs_.find(name);
    if (found == structs_.end()) {
      throw std::runtime_error("no struct " + name + " in modules/ or a header of ops");
    }
    return found->second;
  }

  std::map<std::string, DeclaredStruct> structs_;
  std::set<std::string> modules_;
};

}  // namespace

std::string layer_page(const Device& device, const std::map<std::string, std::string>& texts) {
  const Headers headers(texts);
  const std::vector<LayerExample> examples = layer_examples();
  for (const std::string& module : headers.modules()) {
    if (!kParts.contains(module) &&
        std::ranges::find(examples, module, &LayerExample::name) == examples.end()) {
      throw std::runtime_error(module + " has no example in layer_page.cpp");
    }
  }
  std::string page(kHead);
  for (const LayerExample& example : examples) {
    const std::string tensors = example.tensors(device);
    std::string shapes = headers.shapes_of(example.name);
    page += "| `" + example.name + "` | " + cell(example.what) + " | " +
            cell(headers.options_of(example.name, !tensors.empty())) + " | " +
            cell(shapes.empty() ? "the result is like x" : shapes) + " | " + cell(tensors) + " |\n";
  }
  return page;
}

}  // namespace hearth::docs
