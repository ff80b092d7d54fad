void find_row(INDEX row, out INDEX o0) {
uint rest = uint(row);
uint next;
uint at;
o0 = 0;
at = rest;
o0 += INDEX(at) * p.t0_0;
}

#define M_INF uintBitsToFloat(0x7f800000u)
#define M_NAN uintBitsToFloat(0x7fc00000u)
bool m_is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }
float m_copy_sign(float magnitude, float x) {
  return uintBitsToFloat((floatBitsToUint(magnitude) & 0x7fffffffu) |
                         (floatBitsToUint(x) & 0x80000000u));
}

float m_div(float a, float b) {
  const uint exponent = (floatBitsToUint(b) >> 23) & 255u;
  const float scale = exponent < 27u ? 1.152921504606847e18 :
                      exponent > 227u ? 8.673617379884035e-19 : 1.0;
  precise const float n = a * scale;
  precise const float d = b * scale;
  precise const float reciprocal = 1.0 / d;
  precise const float near = n * reciprocal;
  precise const float rest = fma(-near, d, n);
  precise const float better = fma(rest, reciprocal, near);
  return abs(near) > 0.0 && abs(near) < M_INF ? better : near;
}

// e^r for |r| <= 0.35.
float m_exp_near(float r) {
  float p = 1.9875691500e-4;
  p = p * r + 1.3981999507e-3;
  p = p * r + 8.3334519073e-3;
  p = p * r + 4.1665795894e-2;
  p = p * r + 1.6666665459e-1;
  p = p * r + 5.0000001201e-1;
  return p * (r * r) + r + 1.0;
}
// x*2^n in two steps, so that results outside of the normal range come out right.
float m_scale(float x, int n) {
  const int half_n = n >> 1;
  precise const float near = x * intBitsToFloat((half_n + 127) << 23);
  precise const float all_of_it = near * intBitsToFloat((n - half_n + 127) << 23);
  return all_of_it;
}
float m_exp(float x) {
  const float c = x > 89.0 ? 89.0 : x < -104.0 ? -104.0 : x;
  precise const float shifted = c * 1.44269504088896341 + 12582912.0;
  precise const float n = shifted - 12582912.0;
  precise const float r = (c - n * 0.693359375) - n * -2.12194440e-4;
  const float y = m_scale(m_exp_near(r), floatBitsToInt(shifted) - 0x4b400000);
  return is_nan(x) ? x : y;
}
float top_f32(float a, float b) { return b > a || is_nan(b) ? b : a; }
shared float join_max_f32_parts[32];
float join_max_f32(float x) {
[[unroll]] for (uint d = 1u; d < gl_SubgroupSize; d <<= 1) {
const float other = subgroupShuffleXor(x, d);
const bool is_upper = (gl_SubgroupInvocationID & d) != 0u;
x = top_f32((is_upper ? other : x), (is_upper ? x : other));
}
if (gl_NumSubgroups > 1u) {
barrier();
if (gl_SubgroupInvocationID == 0u) {
join_max_f32_parts[gl_SubgroupID] = x;
}
barrier();
x = uintBitsToFloat(0xff800000u);
for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
x = top_f32(x, join_max_f32_parts[i]);
}
[[unroll]] for (uint d = 1u; d < gl_SubgroupSize; d <<= 1) {
const float other = subgroupShuffleXor(x, d);
const bool is_upper = (gl_SubgroupInvocationID & d) != 0u;
x = top_f32((is_upper ? other : x), (is_upper ? x : other));
}
}
return x;
}
shared float join_sum_f32_parts[32];
float join_sum_f32(float x) {
[[unroll]] for (uint d = 1u; d < gl_SubgroupSize; d <<= 1) {
const float other = subgroupShuffleXor(x, d);
x = x + other;
}
if (gl_NumSubgroups > 1u) {
barrier();
if (gl_SubgroupInvocationID == 0u) {
join_sum_f32_parts[gl_SubgroupID] = x;
}
barrier();
x = 0.0f;
for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
x = x + join_sum_f32_parts[i];
}
[[unroll]] for (uint d = 1u; d < gl_SubgroupSize; d <<= 1) {
const float other = subgroupShuffleXor(x, d);
x = x + other;
}
}
return x;
}
void main() {
const uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
const uint lane = thread & 127u;
const INDEX wanted = INDEX(GROUP) * 1 + INDEX(thread / 128u);
const bool is_row = wanted < p.rows;
const INDEX row = is_row ? wanted : 0;
const int64_t index0 = int64_t(row);
INDEX r0;
find_row(row, r0);
precise float h0[16];
precise float h3[16];
precise float f1 = uintBitsToFloat(0xff800000u);
[[unroll]] for (int c = 0; c < 4; ++c) {
const INDEX col = (INDEX(lane) + c * 128) * 4;
if (col < p.columns) {
float a0[4];
load_f32x4(p.x0 + uint64_t(int64_t(r0 + col) * 4l), a0);
[[unroll]] for (int k = 0; k < 4; ++k) {
h0[c * 4 + k] = a0[k];
}
[[unroll]] for (int k = 0; k < 4; ++k) {
const int e = c * 4 + k;
const int64_t index1 = int64_t(col + k);
const int64_t place = int64_t(row) * int64_t(p.columns) + index1;
f1 = top_f32(f1, h0[e]);
}
}
}
f1 = join_max_f32(f1);
precise float f5 = 0.0f;
[[unroll]] for (int c = 0; c < 4; ++c) {
const INDEX col = (INDEX(lane) + c * 128) * 4;
if (col < p.columns) {
[[unroll]] for (int k = 0; k < 4; ++k) {
const int e = c * 4 + k;
const int64_t index1 = int64_t(col + k);
const int64_t place = int64_t(row) * int64_t(p.columns) + index1;
precise const float v2 = h0[e] - f1;
h3[e] = m_exp(v2);
f5 = f5 + h3[e];
}
}
}
f5 = join_sum_f32(f5);
precise const float v6 = m_div(1.0f, f5);
[[unroll]] for (int c = 0; c < 4; ++c) {
const INDEX col = (INDEX(lane) + c * 128) * 4;
if (col < p.columns) {
float b0[4];
[[unroll]] for (int k = 0; k < 4; ++k) {
const int e = c * 4 + k;
const int64_t index1 = int64_t(col + k);
const int64_t place = int64_t(row) * int64_t(p.columns) + index1;
precise const float v7 = h3[e] * v6;
b0[k] = v7;
}
if (is_row) {
store_f32x4(p.y0 + uint64_t(row * p.columns + col) * 4ul, b0);
}
}
}
}
