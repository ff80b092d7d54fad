#include "finds.hpp"

#include "tests/support/random_bytes.hpp"

namespace hearth::fuzz {
namespace {

struct Find {
  std::string_view target;
  std::string_view hex;
  std::string_view what;  // the broken behaviour
};

constexpr Find kFinds[] = {
    {"op_stream",
     "65802a980f398201000000000000000500ffffffffffffffff000000000000000000000000003200"
     "00000000000000003939393939393939393939393939393939393939393939393939393939393939"
     "39393939393939393939393939393939393939393939393939393939393939393900000000000000"
     "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "00000000000000000000000000000000000000000000000eec824a2a5f4fe03fd5e1d47ff167ece5"
     "a25cd484be69fb20",
     "frames of a fiber that had ended were still guarded (clang's address sanitizer)"},
    {"safetensors",
     "50000000000000007b2261223a7b226474797065223a22467332222c227368617065223a5b343631"
     "313638363031383432373338373930342c345d2c22646174615f6f666673657473223a5b302c305d"
     "7d7d202020202020",
     "a shape of an unknown type has no size"},
    {"onnx_value",
     "0a0ad8ffffffffffff7f00731008",
     "an empty tensor of strings, whose sizes are too large, was a ShapeError without the file's "
     "name"},
};

}  // namespace

std::vector<std::vector<std::byte>> finds(std::string_view target) {
  std::vector<std::vector<std::byte>> all;
  for (const Find& find : kFinds) {
    if (find.target == target) {
      all.push_back(testing::from_hex(find.hex));
    }
  }
  return all;
}

}  // namespace hearth::fuzz
