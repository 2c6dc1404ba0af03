/* The arithmetic of engine.c in plain JavaScript, for a comparison of size and time. */
function plainCalls(memory) {
  const F = () => new Float32Array(memory.buffer), I = () => new Int32Array(memory.buffer), fround = Math.fround;
  const linear = (x, w, b, y, rows, into, out, more) => {
    const f = F(); x >>= 2; w >>= 2; b >>= 2; y >>= 2;
    for (let row = 0; row < rows; row += 2) {
      const a0 = x + row * into, two = row + 1 < rows, a1 = two ? a0 + into : a0;
      for (let at = 0; at < out; at += 4) {
        let p0 = f[b + at], p1 = f[b + at + 1], p2 = f[b + at + 2], p3 = f[b + at + 3], q0 = p0, q1 = p1, q2 = p2, q3 = p3;
        for (let k = 0, from = w + at; k < into; k++, from += out) {
          const s = f[a0 + k], t = f[a1 + k], w0 = f[from], w1 = f[from + 1], w2 = f[from + 2], w3 = f[from + 3];
          p0 += s * w0; p1 += s * w1; p2 += s * w2; p3 += s * w3;
          q0 += t * w0; q1 += t * w1; q2 += t * w2; q3 += t * w3;
        }
        const to = y + row * out + at;
        if (more) { f[to] += p0; f[to + 1] += p1; f[to + 2] += p2; f[to + 3] += p3; } else { f[to] = p0; f[to + 1] = p1; f[to + 2] = p2; f[to + 3] = p3; }
        if (!two) continue;
        const on = to + out;
        if (more) { f[on] += q0; f[on + 1] += q1; f[on + 2] += q2; f[on + 3] += q3; } else { f[on] = q0; f[on + 1] = q1; f[on + 2] = q2; f[on + 3] = q3; }
      }
    }
  };
  const normal = (x, scale, shift, y, rows, width) => {
    const f = F(); x >>= 2; y >>= 2; scale >>= 2; shift >>= 2;
    for (let row = 0; row < rows; row++, x += width, y += width) {
      let mean = 0, square = 0;
      for (let k = 0; k < width; k++) mean += f[x + k];
      mean /= width;
      for (let k = 0; k < width; k++) square += (f[x + k] - mean) ** 2;
      const root = 1 / Math.sqrt(square / width + 1e-5);
      for (let k = 0; k < width; k++) f[y + k] = (f[x + k] - mean) * root * f[scale + k] + f[shift + k];
    }
  };
  const over = [4.744452349e-06, 3.813581870e-04, 3.835574642e-03, 5.430189011e-02, 1.847093271e-01, 1.128379181];
  const under = [1.306993772e-03, 1.544086234e-02, 1.137988330e-01, 4.970279145e-01, 1];
  const gelu = (x, count) => {
    const f = F(); x >>= 2;
    for (let k = x; k < x + count; k++) {
      const v = f[k], z = Math.min(Math.max(v * 0.70710678, -3.95), 3.95), u = z * z;
      const p = (((((-1.347723269e-08 * u + over[0]) * u + over[1]) * u + over[2]) * u + over[3]) * u + over[4]) * u + over[5];
      const q = ((((6.366943048e-05 * u + under[0]) * u + under[1]) * u + under[2]) * u + under[3]) * u + under[4];
      f[k] = 0.5 * v * (1 + (z * p) / q);
    }
  };
  const ends = (sources, targets, a, slope, shift, source, target, z, first, rows, width) => {
    const f = F(), n = I(); sources >>= 2; targets >>= 2; a >>= 2; slope >>= 2; shift >>= 2; source >>= 2; target >>= 2; z >>= 2;
    for (let row = 0; row < rows; row++, z += width) {
      const i = sources + n[source + first + row] * 2 * width, j = targets + n[target + first + row] * 2 * width, own = f[a + first + row];
      for (let k = 0; k < width; k++) f[z + k] = f[i + k] + f[j + k] + f[i + width + k] * f[j + width + k] + own * f[slope + k] + f[shift + k];
    }
  };
  const hear = (gate, a, root, values, source, target, heard, first, rows, heads, padded, width) => {
    const f = F(), n = I(), each = width / heads; gate >>= 2; a >>= 2; root >>= 2; values >>= 2; source >>= 2; target >>= 2; heard >>= 2;
    for (let row = 0; row < rows; row++) {
      const i = n[source + first + row], j = n[target + first + row], strong = 2 * f[a + first + row] * f[root + i] * f[root + j];
      for (let head = 0; head < heads; head++) {
        const weight = strong / (1 + Math.exp(-f[gate + row * padded + head])), to = heard + i * width + head * each, from = values + j * width + head * each;
        for (let k = 0; k < each; k++) f[to + k] += weight * f[from + k];
      }
    }
  };
  const mix = (read, start, source, target, ik, jk, weight, out, first, rows, width) => {
    const f = F(), n = I(), each = width / 4, whole = 4 * width; read >>= 2; start >>= 2; source >>= 2; target >>= 2; ik >>= 2; jk >>= 2; weight >>= 2; out >>= 2;
    for (let row = 0; row < rows; row++, out += width + 4) {
      const i = n[source + first + row], j = n[target + first + row]; let found = 0;
      for (let p = n[start + i], q = n[start + j], pe = n[start + i + 1], qe = n[start + j + 1]; p < pe && q < qe;) {
        const one = n[target + p], other = n[target + q];
        if (one === other) { n[ik + found] = read + p * whole; n[jk + found++] = read + q * whole; p++; q++; } else if (one < other) p++; else q++;
      }
      for (let head = 0; head < 4; head++) {
        const at = head * each; let most = 0;
        for (let t = 0; t < found; t++) {
          const query = n[ik + t] + at, key = n[jk + t] + width + at; let score = 0;
          for (let k = 0; k < each; k++) score += f[query + k] * f[key + k];
          f[weight + t] = score;
          if (score > most) most = score;
        }
        let norm = Math.exp(-most);
        for (let t = 0; t < found; t++) norm += f[weight + t] = Math.exp(f[weight + t] - most);
        for (let k = 0; k < each; k++) f[out + at + k] = 0;
        for (let t = 0; t < found; t++) {
          const share = f[weight + t] / norm, one = n[ik + t] + 2 * width + at, other = n[jk + t] + 3 * width + at;
          for (let k = 0; k < each; k++) f[out + at + k] += share * (f[one + k] + f[other + k]);
        }
        f[out + width + head] = Math.log(norm) + most;
      }
    }
  };
  return { linear, normal, gelu, ends, hear, mix };
}
