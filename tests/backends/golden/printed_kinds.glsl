// add f32[1] dense, f32[1] dense -> f32[1]
precise const float v2 = x0 + x1;
y0 = v2;
// add u8[1] dense, u8[1] dense -> u8[1]
const uint v2 = (x0 + x1) & 255u;
y0 = v2;
// mul i8[1] dense, i8[1] dense -> i8[1]
const int v2 = ((x0 * x1) << 24) >> 24;
y0 = v2;
// abs i8[1] dense -> i8[1]
const int v1 = (abs(x0) << 24) >> 24;
y0 = v1;
// div i32[1] dense, i32[1] dense -> i32[1]
if (x1 == 0) {
undefined(3u, place);
}
const int v2 = div_i32(x0, x1);
y0 = v2;
// div bf16[1] dense, bf16[1] dense -> bf16[1]
precise const float v1 = x0;
precise const float v3 = x1;
precise const float v4 = q_div(v1, v3);
precise const float v5 = v4;
y0 = v5;
// pow i64[1] dense, i64[1] dense -> i64[1]
if (x0 == 0l && x1 < 0l) {
undefined(4u, place);
}
const int64_t v2 = pow_i64(x0, x1);
y0 = v2;
// minimum f64[1] dense, f64[1] dense -> f64[1]
precise const double v2 = min_f64(x0, x1);
y0 = v2;
// relu f16[1] dense -> f16[1]
precise const float v1 = x0;
const bool v3 = floatBitsToUint(v1) - 0x80000001u < 0x7f800000u;
precise const float v4 = v3 ? 0.0f : v1;
precise const float v5 = v4;
y0 = v5;
// sigmoid f32[1] dense -> f32[1]
precise const float v2 = -x0;
precise const float v3 = m_exp(v2);
precise const float v4 = 1.0f + v3;
precise const float v5 = m_div(1.0f, v4);
y0 = v5;
// sigmoid f16[1] dense -> f16[1]
precise const float v2 = x0;
precise const float v3 = -v2;
precise const float v4 = q_exp(v3);
precise const float v5 = 1.0f + v4;
precise const float v6 = q_div(1.0f, v5);
precise const float v7 = v6;
y0 = v7;
// log1p f32[1] dense -> f32[1]
precise const float v2 = 1.0f + x0;
const bool v3 = v2 == 1.0f;
precise const float v5 = v2 + (-1.0f);
const bool v6 = v5 == x0;
precise const float v7 = m_log(v2);
precise const float v8 = m_div(x0, v5);
precise const float v9 = v7 * v8;
precise const float v10 = v6 ? v7 : v9;
precise const float v11 = v3 ? x0 : v10;
y0 = v11;
// round f64[1] dense -> f64[1]
precise const double v1 = abs(x0);
const bool v3 = v1 < 4503599627370496.0lf;
precise const double v4 = v1 + 4503599627370496.0lf;
precise const double v6 = v4 + (-4503599627370496.0lf);
precise const double v7 = v3 ? v6 : v1;
const bool v8 = v7 == v1;
const bool v10 = x0 < 0.0lf;
precise const double v11 = -v7;
precise const double v12 = v10 ? v11 : v7;
precise const double v13 = v8 ? x0 : v12;
y0 = v13;
// where bool[1] dense, bf16[1] dense, bf16[1] dense -> bf16[1]
precise const float v3 = x0 ? x1 : x2;
y0 = v3;
// cast f64[1] dense -> f32[1]
precise const float v1 = float(x0);
y0 = v1;
// dropout f32[1] dense -> f32[1]
const int64_t v3 = int64_t(philox_word(words0, p.s0, p.s1, place));
const int64_t v5 = v3 >> 8;
const bool v7 = v5 < p.s2;
precise const float v11 = x0 * p.s3;
precise const float v12 = v7 ? 0.0f : v11;
y0 = v12;
// random_normal -> f64[1]
const int64_t v6 = place >> 1;
const int64_t v8 = v6 * 4l;
const int64_t v9 = int64_t(philox_word(words0, p.s0, p.s1, v8));
const int64_t v11 = v9 >> 5;
precise const double v12 = double(v11);
precise const double v14 = v12 * 67108864.0lf;
const int64_t v16 = v8 + 1l;
const int64_t v17 = int64_t(philox_word(words0, p.s0, p.s1, v16));
const int64_t v19 = v17 >> 6;
precise const double v20 = double(v19);
precise const double v21 = v14 + v20;
precise const double v23 = v21 * 1.1102230246251565e-16lf;
precise const double v24 = v23 + 1.1102230246251565e-16lf;
precise const double v25 = m_log(v24);
precise const double v27 = v25 * (-2.0lf);
precise const double v28 = m_sqrt(v27);
const int64_t v29 = v6 * 2l;
const bool v30 = place == v29;
const int64_t v31 = v8 + 2l;
const int64_t v32 = int64_t(philox_word(words0, p.s0, p.s1, v31));
const int64_t v33 = v32 >> 5;
precise const double v34 = double(v33);
precise const double v35 = v34 * 67108864.0lf;
const int64_t v37 = v8 + 3l;
const int64_t v38 = int64_t(philox_word(words0, p.s0, p.s1, v37));
const int64_t v39 = v38 >> 6;
precise const double v40 = double(v39);
precise const double v41 = v35 + v40;
precise const double v42 = v41 * 1.1102230246251565e-16lf;
precise const double v44 = v42 * 6.2831853071795862lf;
precise const double v45 = m_cos(v44);
precise const double v46 = m_sin(v44);
precise const double v47 = v30 ? v45 : v46;
precise const double v48 = v28 * v47;
precise const double v49 = p.s3 * v48;
precise const double v50 = p.s2 + v49;
y0 = v50;
// sgd_step f32[0] dense, f32[0] dense -> f32[0]
precise const float v4 = p.s1 * x0;
precise const float v5 = x1 + v4;
precise const float v6 = p.s0 * v5;
precise const float v7 = x0 - v6;
y0 = v7;
// adam_step f16[0] dense, f16[0] dense, f16[0] dense, f16[0] dense -> f16[0], f16[0], f16[0]
precise const float v1 = x0;
precise const float v5 = x2;
precise const float v6 = p.s1 * v5;
precise const float v9 = x1;
precise const float v11 = p.s0 * v1;
precise const float v12 = v9 + v11;
precise const float v13 = p.s2 * v12;
precise const float v14 = v6 + v13;
precise const float v15 = p.s5 * v14;
precise const float v18 = x3;
precise const float v19 = p.s3 * v18;
precise const float v21 = p.s4 * v12;
precise const float v22 = v21 * v12;
precise const float v23 = v19 + v22;
precise const float v24 = q_sqrt(v23);
precise const float v26 = v24 * p.s6;
precise const float v28 = v26 + p.s7;
precise const float v29 = q_div(v15, v28);
precise const float v30 = v1 - v29;
precise const float v31 = v30;
precise const float v32 = v14;
precise const float v33 = v23;
y0 = v31;
y1 = v32;
y2 = v33;
