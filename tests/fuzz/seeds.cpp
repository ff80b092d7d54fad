#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include <hearth/streams/trace/op_trace_file.hpp>

#include "fuzz_targets.hpp"
#include "tests/streams/trace/op_trace_builder.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/random_bytes.hpp"
#include "tests/support/torch_bytes.hpp"

namespace hearth::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return {view.begin(), view.end()};
}

std::vector<Bytes> op_stream_seeds() {
  std::vector<Bytes> all;
  for (std::uint64_t i = 0; i < 96; ++i) {
    Bytes bytes = testing::bytes_of_seed(i, 8, 307);
    bytes[2] = static_cast<std::byte>(i);  // every kind of run
    all.push_back(std::move(bytes));
  }
  return all;
}

// Every kind of run except a hang, which takes seconds: stepped or not, with and without losses,
// with and without kernels that cannot be compiled.
std::vector<Bytes> vulkan_op_stream_seeds() {
  std::vector<Bytes> all;
  for (std::uint64_t i = 0; i < 12; ++i) {
    Bytes bytes = testing::bytes_of_seed(i, 60, 240);
    bytes[2] = static_cast<std::byte>(i);
    bytes[3] = static_cast<std::byte>(1 + 5 * i);
    all.push_back(std::move(bytes));
  }
  return all;
}

Bytes with_head(const OpTrace& trace) {
  Bytes bytes(1);
  const Bytes payload = encode_trace(trace);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

std::vector<Bytes> op_trace_seeds() {
  using testing::OpTraceBuilder;
  std::vector<Bytes> all;
  all.push_back(with_head(OpTrace{}));
  all.push_back(with_head(testing::small_program().trace()));
  const TensorSpec plane{DType::f32, {1, 2, 4, 4}};
  OpTraceBuilder pictures;
  const std::uint32_t x = pictures.fill(plane.shape, 1);
  const std::uint32_t w = pictures.fill({3, 2, 3, 3}, 0.5);
  const std::uint32_t y = pictures.op(
      OpKind::conv2d, {x, w}, {DType::f32, {1, 3, 4, 4}}, ConvAttributes{.padding = {1, 1}});
  pictures.add(OpKind::max_pool2d, {y}, {{DType::f32, {1, 3, 2, 2}}, {DType::i32, {1, 3, 2, 2}}});
  OpTraceBuilder::give(pictures.trace().ops.back(), PoolAttributes{});
  const std::uint32_t positions = pictures.last();
  pictures.op(OpKind::max_pool2d_backward,
              {positions - 1, positions},
              {DType::f32, {1, 3, 4, 4}},
              PoolAttributes{});
  pictures.about(OpKind::readback, pictures.last());
  all.push_back(with_head(pictures.trace()));
  OpTraceBuilder rows;
  const TensorSpec table{DType::f32, {2, 3}};
  const std::uint32_t logits = rows.upload(table.shape, {1, 2, 3, 4, 5, 6});
  const std::uint32_t targets = rows.fill({2}, 0, DType::i64);
  rows.add(OpKind::cross_entropy, {logits, targets}, {{DType::f32, {2}}, table});
  const std::uint32_t losses = rows.last() - 1;
  rows.op(OpKind::cross_entropy_backward, {losses, losses + 1, targets}, table);
  const std::uint32_t soft = rows.op(OpKind::softmax, {logits}, table, AxisAttributes{.axis = 1});
  rows.op(OpKind::reduce_sum, {soft}, {DType::f32, {2}}, ReduceAttributes{.axes = 2});
  const std::uint32_t turned =
      rows.op(OpKind::permute, {soft}, {DType::f32, {3, 2}}, PermuteAttributes{.axes = {1, 0}});
  rows.op(OpKind::reshape, {turned}, {DType::f32, {6}});
  rows.op(OpKind::expand, {turned}, {DType::f32, {2, 3, 2}});
  rows.op(OpKind::matmul, {soft, turned}, {DType::f32, {2, 2}});
  rows.op(OpKind::cast, {turned}, {DType::f16, {3, 2}});
  rows.about(OpKind::sync, 0);
  all.push_back(with_head(rows.trace()));
  OpTraceBuilder table_rows;
  const TensorSpec words_spec{DType::f32, {3, 2}};
  const std::uint32_t words = table_rows.upload({3, 2}, {1, 2, 3, 4, 5, 6});
  const std::uint32_t line = table_rows.fill({4}, 2, DType::i64);
  const std::uint32_t chosen =
      table_rows.op(OpKind::index_select, {words, line}, {DType::f32, {4, 2}}, AxisAttributes{});
  table_rows.op(OpKind::index_add, {chosen, line}, words_spec, AxisAttributes{});
  const std::uint32_t places = table_rows.fill({2, 2}, 1, DType::i32);
  const std::uint32_t picked = table_rows.op(
      OpKind::gather, {words, places}, {DType::f32, {2, 2}}, AxisAttributes{.axis = 1});
  table_rows.op(OpKind::scatter_add, {picked, places}, words_spec, AxisAttributes{.axis = 1});
  table_rows.op(OpKind::scatter,
                {words, places, picked},
                words_spec,
                ScatterAttributes{.axis = 1, .mode = ScatterMode::max});
  all.push_back(with_head(table_rows.trace()));
  OpTraceBuilder heads;
  const TensorSpec head{DType::f32, {2, 3, 2}};
  const TensorSpec statistics{DType::f32, {2, 3, 2}};
  const std::uint32_t q = heads.fill(head.shape, 0.5);
  const std::uint32_t seen = heads.fill({3}, 1, DType::boolean);
  heads.add(OpKind::attention, {q, q, q, seen}, {head, statistics});
  OpTraceBuilder::give(heads.trace().ops.back(), AttentionAttributes{.causal = 1});
  const std::uint32_t kept = heads.last();
  heads.add(OpKind::attention_backward, {q, q, q, q, kept - 1, kept, seen}, {head, head, head});
  OpTraceBuilder::give(heads.trace().ops.back(), AttentionAttributes{.causal = 1});
  heads.about(OpKind::readback, heads.last());
  all.push_back(with_head(heads.trace()));
  OpTraceBuilder copies;
  const std::uint32_t here = copies.fill({4}, 3);
  copies.about(OpKind::readback, here);
  copies.on(1, 1).add(OpKind::upload, {}, {{DType::f32, {4}}}).copied_from = 2;
  copies.add(OpKind::lend, {2}, {{DType::f32, {4}}});
  copies.about(OpKind::adopt, copies.last());
  copies.about(OpKind::readback, copies.last());
  all.push_back(with_head(copies.trace()));
  return all;
}

std::vector<Bytes> idx_seeds() {
  const auto text = [](std::initializer_list<int> values) {
    std::string out;
    for (const int value : values) {
      out.push_back(static_cast<char>(value));
    }
    return out;
  };
  return {bytes_of(text({0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9})),
          bytes_of(text({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4})),
          bytes_of(text({0, 0, 8, 1, 0, 0, 0, 0})),
          bytes_of(text({0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0})),
          bytes_of(text({0, 0, 8, 2, 127, 255, 255, 255, 127, 255, 255, 255, 1})),
          // gzip of the first
          bytes_of(text({31, 139, 8,   0,   0,   0, 0, 0,   0,   3,   99,  96, 224, 96, 100, 96,
                         96, 96,  102, 231, 224, 4, 0, 136, 113, 128, 139, 11, 0,   0,  0}))};
}

std::vector<Bytes> safetensors_seeds() {
  const auto file = [](std::string header, std::size_t data) {
    while (header.size() % 8 != 0) {
      header.push_back(' ');
    }
    const std::uint64_t size = header.size();
    std::string text(sizeof size, '\0');
    std::memcpy(text.data(), &size, sizeof size);
    return bytes_of(text + header + std::string(data, '\x3f'));
  };
  return {
      file("{}", 0),
      file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
      file(
          R"({"__metadata__":{"step":"12"},"w":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]},)"
          R"("b":{"dtype":"I64","shape":[],"data_offsets":[12,20]}})",
          20),
      file(
          R"({"a":{"dtype":"U8","shape":[0,4],"data_offsets":[0,0]},"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})",
          1),
      file(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0),
      bytes_of(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{", 9))};
}

std::vector<Bytes> torch_file_seeds() {
  using testing::pickled_tensor;
  const std::string data = testing::values_bytes<float>({1, 2, 3, 4, 5, 6});
  const std::string dense =
      pickled_tensor({.storage_count = 6, .sizes = {2, 3}, .strides = {3, 1}});
  const std::string turned =
      pickled_tensor({.storage_count = 6, .offset = 1, .sizes = {2, 2}, .strides = {1, 3}});
  const std::string narrow =
      pickled_tensor({.type = "ShortStorage", .storage_count = 6, .sizes = {3}, .strides = {2}});
  const std::string tree = testing::pickled_dict(
      {{"epoch", testing::pickled_number(5)},
       {"model", testing::pickled_dict({{"a", dense}, {"b", turned}, {"c", narrow}})}});
  const std::string module = "c__main__\nNet\n)\x81" +
                             testing::pickled_dict({{"_parameters", tree}, {"_modules", "}"}}) +
                             "b";
  std::vector<Bytes> all;
  for (const std::string& root :
       {dense, tree, module, std::string("cposix\nsystem\n(X\1\0\0\0xtR", 24)}) {
    all.push_back(bytes_of(testing::torch_zip(root, {{"0", data}})));
    all.push_back(bytes_of(testing::torch_legacy(root, {{"0", data}})));
  }
  return all;
}

std::vector<Bytes> weight_index_seeds() {
  return {bytes_of(R"({"weight_map":{"a":"one.safetensors"}})"),
          bytes_of(R"({"metadata":{"total_size":8},"weight_map":{"a":"one.safetensors","b":"x"}})"),
          bytes_of(R"({"weight_map":{"a":"../one.safetensors"}})"),
          bytes_of(R"({"weight_map":[1,[2,{"a":null}]]})")};
}

std::vector<Bytes> onnx_seeds() {
  using namespace testing;
  const OnnxGraphParts product{
      .nodes = {onnx_node("MatMul", {"x", "w"}, {"h"}, {}, "product"),
                onnx_node("Softmax", {"h"}, {"y"}, {onnx_attribute("axis", std::int64_t{-1})})},
      .initialisers = {onnx_tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6})},
      .inputs = {onnx_value("x", {-1, 2})},
      .outputs = {onnx_value("y", {-1, 3})}};
  const OnnxGraphParts shapes{
      .nodes = {onnx_node("Shape", {"x"}, {"s"}),
                onnx_node("Gather", {"s", "zero"}, {"n"}),
                onnx_node(
                    "Concat", {"n", "rest"}, {"t"}, {onnx_attribute("axis", std::int64_t{0})}),
                onnx_node("Reshape", {"x", "t"}, {"y"})},
      .initialisers = {onnx_integers("zero", {1}, {0}), onnx_integers("rest", {1}, {-1})},
      .inputs = {onnx_value("x", {2, 3, 4})},
      .outputs = {onnx_value("y", {-1, -1})}};
  const ProtoBytes body = onnx_graph({.nodes = {onnx_node("Neg", {"x"}, {"r"})},
                                      .initialisers = {},
                                      .inputs = {},
                                      .outputs = {onnx_value("r", {2})}});
  const OnnxGraphParts branch{.nodes = {onnx_node("If",
                                                  {"c"},
                                                  {"y"},
                                                  {onnx_graph_attribute("then_branch", body),
                                                   onnx_graph_attribute("else_branch", body)})},
                              .initialisers = {},
                              .inputs = {onnx_value("x", {2}), onnx_value("c", {}, 9)},
                              .outputs = {onnx_value("y", {2})}};
  const OnnxGraphParts unknown{.nodes = {onnx_node("Nothing", {"x", "z"}, {"y"}, {}, "n", "d")},
                               .initialisers = {},
                               .inputs = {onnx_value("x", {2}, 15)},
                               .outputs = {onnx_value("y", {2})}};
  std::vector<Bytes> all;
  for (const OnnxGraphParts& parts : {product, shapes, branch, unknown}) {
    all.push_back(bytes_of(onnx_file(parts)));
  }
  all.push_back(bytes_of(onnx_file(product, 99)));
  return all;
}

std::vector<Bytes> onnx_value_seeds() {
  using namespace testing;
  const ProtoBytes tensor = onnx_tensor("x", {2}, {1, 2});
  return {bytes_of(tensor.bytes()),
          bytes_of(onnx_integers("i", {1, 2}, {-1, 1}).bytes()),
          bytes_of(ProtoBytes().text(1, "s").integer(2, 1).message(3, tensor).bytes()),
          bytes_of(ProtoBytes().integer(2, 16).integer(1, 4).text(9, "raw bytes").bytes())};
}

}  // namespace

std::vector<std::vector<std::byte>> seeds(std::string_view target) {
  if (target == "op_stream") {
    return op_stream_seeds();
  }
  if (target == "vulkan_op_stream") {
    return vulkan_op_stream_seeds();
  }
  if (target == "op_trace") {
    return op_trace_seeds();
  }
  if (target == "torch_file") {
    return torch_file_seeds();
  }
  if (target == "weight_index") {
    return weight_index_seeds();
  }
  if (target == "idx") {
    return idx_seeds();
  }
  if (target == "safetensors") {
    return safetensors_seeds();
  }
  if (target == "onnx") {
    return onnx_seeds();
  }
  if (target == "onnx_value") {
    return onnx_value_seeds();
  }
  throw std::out_of_range("no seeds for fuzz target " + std::string(target));
}

}  // namespace hearth::fuzz
