void main() {
const uint thread = uint(row_thread());
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
UNROLLED for (int c = 0; c < 4; ++c) {
const INDEX col = (INDEX(lane) + c * 128) * 4;
if (col < p.columns) {
float a0[4];
load_f32x4(p.x0 + uint64_t(int64_t(r0 + col) * 4l), a0);
UNROLLED for (int k = 0; k < 4; ++k) {
h0[c * 4 + k] = a0[k];
}
UNROLLED for (int k = 0; k < 4; ++k) {
const int e = c * 4 + k;
const int64_t index1 = int64_t(col + k);
const int64_t place = int64_t(row) * int64_t(p.columns) + index1;
f1 = top_f32(f1, h0[e]);
}
}
}
f1 = join_max_f32(f1);
precise float f5 = 0.0f;
UNROLLED for (int c = 0; c < 4; ++c) {
const INDEX col = (INDEX(lane) + c * 128) * 4;
if (col < p.columns) {
UNROLLED for (int k = 0; k < 4; ++k) {
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
UNROLLED for (int c = 0; c < 4; ++c) {
const INDEX col = (INDEX(lane) + c * 128) * 4;
if (col < p.columns) {
float b0[4];
UNROLLED for (int k = 0; k < 4; ++k) {
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
