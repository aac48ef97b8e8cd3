/* The arithmetic of rows in the precision that REAL says. loops.c includes this file for double
   and for float (SINGLE); OF(name) tells the two apart.

   Single precision is for engines whose scores are in single precision themselves. Twice as many
   rows fit into a register, and polynomials are half as long. */

enum { OF(LANES) = 64 / sizeof(REAL) };

/* Of a chunk. */
typedef struct {
    REAL score[CHUNK], weight[CHUNK], small[CHUNK], far[CHUNK];
    REAL pull[CHUNK], step[CHUNK], bend[CHUNK], other[CHUNK];
    uint32_t cell[CHUNK];
} OF(Chunk);

INLINE void OF(read_reals)(const void *from, int64_t size, int64_t lo, int m, REAL *restrict to) {
    if (size == 4)
        for (int i = 0; i < m; i++) to[i] = (REAL)((const float *)from)[lo + i];
    else
        for (int i = 0; i < m; i++) to[i] = (REAL)((const double *)from)[lo + i];
}

INLINE void OF(write_reals)(void *to, int64_t size, int64_t lo, int m, const REAL *restrict from) {
    if (size == 4)
        for (int i = 0; i < m; i++) ((float *)to)[lo + i] = (float)from[i];
    else
        for (int i = 0; i < m; i++) ((double *)to)[lo + i] = (double)from[i];
}

INLINE void OF(read_rows)(const Pass *r, int64_t lo, int m, OF(Chunk) *c) {
    read_cells(r, lo, m, c->cell);
    if (r->weight)
        OF(read_reals)(r->weight, 4, lo, m, c->weight);
    else
        for (int i = 0; i < m; i++) c->weight[i] = 1;
    if (r->task != CORRECT) OF(read_reals)(r->scores, r->scores_size, lo, m, c->score);
}

/* Of each row what its cell has. */
INLINE void OF(take)(const REAL *table, const OF(Chunk) *c, int m, REAL *restrict out) {
    for (int i = 0; i < m; i++) out[i] = table[c->cell[i]];
}

/* The same, times its weight. */
INLINE void OF(take_weighted)(const Pass *r, const void *table, const OF(Chunk) *c, int m,
                              REAL *restrict out) {
    OF(take)((const REAL *)table, c, m, out);
    if (r->weight)
        for (int i = 0; i < m; i++) out[i] *= c->weight[i];
}

INLINE REAL OF(size_of)(REAL x) { return x >= 0 ? x : -x; }

/* Exponential and logarithm, written out. A loop over the library's scalar functions runs at 8 ns
   a row, as they cannot be vectorised; the polynomials below vectorise and run at 1.5 ns, to
   within a few units in the last place (tests/kernel/test_row_pass.py). They are summed by halves and
   quarters: in one chain, each step would wait for the one before. */

/* e^-|f - t| */
INLINE void OF(exponential)(const REAL *restrict score, double threshold, int m,
                            REAL *restrict small) {
    const REAL t = (REAL)threshold, log2_e = (REAL)1.4426950408889634;
#if SINGLE
    const REAL ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    const REAL rounder = 12582912.0f; /* 1.5 * 2^23: leaves the whole in the low bits */
    const REAL lowest = -87.0f;
#else
    const REAL ln2_high = 0.6931471803691238, ln2_low = 1.9082149292705877e-10;
    const REAL rounder = 6755399441055744.0; /* 1.5 * 2^52 */
    const REAL lowest = -700.0;
#endif
    for (int i = 0; i < m; i++) {
        REAL d = score[i] - t;
        REAL x = d < 0 ? d : -d;
        x = x < lowest ? lowest : x; /* NaN stays NaN: the loss must tell of it */
        REAL y = x * log2_e + rounder;
        REAL k = y - rounder;
        REAL v = x - k * ln2_high - k * ln2_low;
        REAL v2 = v * v, v4 = v2 * v2;
        REAL p0 = (1 + v) + v2 * ((REAL)0.5 + v * (REAL)(1.0 / 6));
        REAL p4 = ((REAL)(1.0 / 24) + v * (REAL)(1.0 / 120)) +
                  v2 * ((REAL)(1.0 / 720) + v * (REAL)(1.0 / 5040));
        REAL p = p0 + v4 * p4;
        BITS bits;
        REAL two_to_k;
        memcpy(&bits, &y, sizeof bits);
#if SINGLE
        bits = (bits + 127) << 23;
#else
        double v8 = v4 * v4;
        double p8 = (1.0 / 40320 + v * (1.0 / 362880)) + v2 * (1.0 / 3628800 + v * (1.0 / 39916800));
        p += v8 * (p8 + v4 * (1.0 / 479001600));
        bits = (bits + 1023) << 52;
#endif
        memcpy(&two_to_k, &bits, sizeof bits);
        small[i] = p * two_to_k;
    }
}

/* s(|f - t|) = 1 / (1 + e^-|f - t|), of which s(-|f - t|) is e^-|f - t| times as much. Divisions are
   what takes longest: one for slopes and curvatures, one in the logarithm. */
INLINE void OF(larger_side)(const REAL *restrict small, int m, REAL *restrict far) {
    for (int i = 0; i < m; i++) far[i] = 1 / (1 + small[i]);
}

/* log(1 + e) = 2 artanh(e / (2 + e)), for e from 0 to 1 */
INLINE void OF(logarithm)(const REAL *restrict small, int m, REAL *restrict log) {
    for (int i = 0; i < m; i++) {
        REAL s = small[i] / (2 + small[i]);
        REAL z = s * s;
        REAL z2 = z * z, z4 = z2 * z2;
        REAL q0 = (1 + z * (REAL)(1.0 / 3)) + z2 * ((REAL)(1.0 / 5) + z * (REAL)(1.0 / 7));
        REAL q4 = ((REAL)(1.0 / 9) + z * (REAL)(1.0 / 11)) +
                  z2 * ((REAL)(1.0 / 13) + z * (REAL)(1.0 / 15));
        REAL q = q0 + z4 * q4;
#if !SINGLE
        double z8 = z4 * z4;
        double q8 = (1.0 / 17 + z * (1.0 / 19)) + z2 * (1.0 / 21 + z * (1.0 / 23));
        double q12 = (1.0 / 25 + z * (1.0 / 27)) + z2 * (1.0 / 29 + z * (1.0 / 31));
        q += z8 * ((q8 + z4 * q12) + z8 * (1.0 / 33 + z * (1.0 / 35)));
#endif
        log[i] = 2 * s * q;
    }
}

/* pull is (1 - 2y) times the weight of the loss: its sign tells the label. The loss is
   log(1 + e^u), u = (1 - 2y) f. Summed in several lanes, always the same ones. */
INLINE double OF(sum_of_losses)(const OF(Chunk) *c, const REAL *restrict log, int m) {
    REAL lanes[OF(LANES)] = {0};
    double total = 0.0;
    int i = 0;
    for (; i + OF(LANES) <= m; i += OF(LANES))
        for (int j = 0; j < OF(LANES); j++) {
            REAL f = c->score[i + j], g = c->pull[i + j];
            REAL wrong = (g >= 0) == (f >= 0) ? OF(size_of)(f) : 0;
            lanes[j] += OF(size_of)(g) * (log[i + j] + wrong);
        }
    for (; i < m; i++) {
        REAL f = c->score[i], g = c->pull[i];
        REAL wrong = (g >= 0) == (f >= 0) ? OF(size_of)(f) : 0;
        total += OF(size_of)(g) * (log[i] + wrong);
    }
    for (int j = 0; j < OF(LANES); j++) total += lanes[j];
    return total;
}

/* What groups weigh on a row of a side by how likely it is of each. */
INLINE void OF(soften)(const Pass *r, const Soft *soft, int64_t lo, int m, OF(Chunk) *c) {
    for (int i = 0; i < m; i++) {
        int64_t side = r->side[c->cell[i]];
        if (side < 0) continue;
        const float *of_row = soft->memberships + (lo + i) * soft->n_groups;
        const double *on = soft->on_groups + side * soft->n_groups;
        double total = 0.0;
        for (int64_t g = 0; g < soft->n_groups; g++) total += of_row[g] * on[g];
        c->other[i] += (REAL)(total * c->weight[i]);
    }
}

/* The default game: the loss, and a sigmoid proxy times `bump` of the cell and what comes by
   memberships. The proxy has slope s(v) s(-v) and curvature s(v) s(-v) (s(-v) - s(v)), v = f - t,
   read off e^-|v|. The curvature changes its sign; a Hessian must not. */
INLINE double OF(descend)(const Pass *r, int64_t lo, int m, OF(Chunk) *c) {
    REAL *restrict small = c->small, *restrict far = c->far;
    REAL *restrict step = c->step, *restrict bend = c->bend;
    OF(read_rows)(r, lo, m, c);
    OF(take_weighted)(r, r->pull, c, m, c->pull);
    OF(take_weighted)(r, r->bump, c, m, step);
    for (int i = 0; i < m; i++) bend[i] = OF(size_of)(step[i]);
    if (r->n_soft) {
        memset(c->other, 0, sizeof c->other);
        for (int64_t s = 0; s < r->n_soft; s++) OF(soften)(r, r->soft + s, lo, m, c);
        for (int i = 0; i < m; i++) {
            step[i] += c->other[i];
            bend[i] += OF(size_of)(c->other[i]);
        }
    }
    OF(exponential)(c->score, r->threshold, m, small);
    OF(larger_side)(small, m, far);
    for (int i = 0; i < m; i++) {
        REAL near = small[i] * far[i], slope = near * far[i];
        step[i] *= slope;
        bend[i] *= slope * (far[i] - near);
    }
    if (r->threshold != 0.0) {
        OF(exponential)(c->score, 0.0, m, small);
        OF(larger_side)(small, m, far);
    }
    const REAL *restrict f = c->score, *restrict pull = c->pull;
    for (int i = 0; i < m; i++) { /* the loss has slope s(u) */
        REAL near = small[i] * far[i];
        step[i] += pull[i] * ((pull[i] >= 0) == (f[i] >= 0) ? far[i] : near);
        bend[i] += OF(size_of)(pull[i]) * (near * far[i]);
    }
    OF(write_reals)(r->gradient, r->gradient_size, lo, m, step);
    OF(write_reals)(r->hessian, r->gradient_size, lo, m, bend);
    OF(logarithm)(small, m, c->other);
    return OF(sum_of_losses)(c, c->other, m);
}
