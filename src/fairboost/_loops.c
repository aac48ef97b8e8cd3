/* Loops over rows: what costs time in a round, and nothing else.

   Rows are taken in blocks by whichever thread is free, and what is summed is kept block by block:
   results do not depend on the number of threads. Within a block rows are worked off in chunks
   that stay in the cache, each by several short loops: a loop over two or three arrays is
   vectorised, one over all of them is not, and runs at a third of the speed.

   No header of Python or NumPy is needed: fairboost/_loops.py describes `Rows` to ctypes. */

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define INLINE static inline __attribute__((always_inline))

enum { CHUNK = 512, LANES = 8 };
enum { DESCEND, LOOK, SUM_AND_DESCEND, CORRECT };

/* Rows known by the probability of their group: (n, n_groups), and what a group weighs on a
   positive decision of a row of label 0, then of label 1: (2, n_groups). */
typedef struct {
    const float *memberships;
    const double *on_groups;
    int64_t n_groups;
} Soft;

typedef struct {
    int64_t task;               /* DESCEND ... */
    int64_t n, block, next;     /* rows, rows in a block, the first block that nobody has taken */
    int64_t wide;               /* use wide registers: has_wide() or 0 */
    int64_t n_cells;
    const void *cells;          /* unsigned, of 1, 2 or 4 bytes */
    int64_t cells_size;
    const void *scores;         /* float or double: 4 or 8 bytes */
    int64_t scores_size;
    const float *weight;        /* or NULL */
    double threshold;
    const double *pull, *bump;           /* by cell: DESCEND, LOOK */
    const int64_t *side;                 /* by cell, a label, or -1 for none: DESCEND with soft */
    const Soft *soft;
    int64_t n_soft;
    const double *away, *scale, *shift, *curve; /* by cell: SUM_AND_DESCEND, CORRECT */
    void *gradient, *hessian;   /* float or double: 4 or 8 bytes */
    int64_t gradient_size;
    double *sums;               /* by block and cell (LOOK 1, SUM_AND_DESCEND 3) */
    double *loss;               /* by block */
} Rows;

/* Of a chunk. */
typedef struct {
    double score[CHUNK], weight[CHUNK], small[CHUNK], far[CHUNK];
    double pull[CHUNK], step[CHUNK], bend[CHUNK], other[CHUNK];
    uint32_t cell[CHUNK];
} Chunk;

/* Reading and writing: all arithmetic is in double precision. */

INLINE void read_cells(const Rows *r, int64_t lo, int m, uint32_t *restrict cell) {
    if (r->cells_size == 1)
        for (int i = 0; i < m; i++) cell[i] = ((const uint8_t *)r->cells)[lo + i];
    else if (r->cells_size == 2)
        for (int i = 0; i < m; i++) cell[i] = ((const uint16_t *)r->cells)[lo + i];
    else
        memcpy(cell, (const uint32_t *)r->cells + lo, (size_t)m * sizeof *cell);
}

INLINE void read_reals(const void *from, int64_t size, int64_t lo, int m, double *restrict to) {
    if (size == 4)
        for (int i = 0; i < m; i++) to[i] = ((const float *)from)[lo + i];
    else
        memcpy(to, (const double *)from + lo, (size_t)m * sizeof *to);
}

INLINE void write_reals(void *to, int64_t size, int64_t lo, int m, const double *restrict from) {
    if (size == 4)
        for (int i = 0; i < m; i++) ((float *)to)[lo + i] = (float)from[i];
    else
        memcpy((double *)to + lo, from, (size_t)m * sizeof *from);
}

INLINE void read_weight(const Rows *r, int64_t lo, int m, double *restrict weight) {
    if (r->weight)
        read_reals(r->weight, 4, lo, m, weight);
    else
        for (int i = 0; i < m; i++) weight[i] = 1.0;
}

/* Of each row what its cell has. */
INLINE void take(const double *table, const Chunk *c, int m, double *restrict out) {
    for (int i = 0; i < m; i++) out[i] = table[c->cell[i]];
}

/* The same, times its weight. */
INLINE void take_weighted(const Rows *r, const double *table, const Chunk *c, int m,
                          double *restrict out) {
    take(table, c, m, out);
    if (r->weight)
        for (int i = 0; i < m; i++) out[i] *= c->weight[i];
}

INLINE double size_of(double x) { return x >= 0.0 ? x : -x; }

/* Exponential and logarithm, written out. A loop over the library's scalar functions runs at 8 ns
   a row, as they cannot be vectorised; the polynomials below vectorise and run at 1.5 ns, to
   within a few units in the last place (tests/unit/test_kernel.py). They are summed by halves and
   quarters: in one chain, each step would wait for the one before. */

/* e^-|f - t| */
INLINE void exponential(const double *restrict score, double t, int m, double *restrict small) {
    const double log2_e = 1.4426950408889634;
    const double ln2_high = 0.6931471803691238, ln2_low = 1.9082149292705877e-10;
    const double rounder = 6755399441055744.0; /* 1.5 * 2^52: leaves the whole in the low bits */
    for (int i = 0; i < m; i++) {
        double d = score[i] - t;
        double x = d < 0.0 ? d : -d;
        x = x > -700.0 ? x : -700.0;
        double y = x * log2_e + rounder;
        double k = y - rounder;
        double v = x - k * ln2_high - k * ln2_low;
        double v2 = v * v, v4 = v2 * v2, v8 = v4 * v4;
        double p0 = (1.0 + v) + v2 * (0.5 + v * (1.0 / 6));
        double p4 = (1.0 / 24 + v * (1.0 / 120)) + v2 * (1.0 / 720 + v * (1.0 / 5040));
        double p8 = (1.0 / 40320 + v * (1.0 / 362880)) + v2 * (1.0 / 3628800 + v * (1.0 / 39916800));
        double p = (p0 + v4 * p4) + v8 * (p8 + v4 * (1.0 / 479001600));
        uint64_t bits;
        double two_to_k;
        memcpy(&bits, &y, sizeof bits);
        bits = (bits + 1023) << 52;
        memcpy(&two_to_k, &bits, sizeof bits);
        small[i] = p * two_to_k;
    }
}

/* s(|f - t|) = 1 / (1 + e^-|f - t|), of which s(-|f - t|) is e^-|f - t| times as much. Divisions are
   what takes longest: one for slopes and curvatures, one in the logarithm. */
INLINE void larger_side(const double *restrict small, int m, double *restrict far) {
    for (int i = 0; i < m; i++) far[i] = 1.0 / (1.0 + small[i]);
}

/* log(1 + e) = 2 artanh(e / (2 + e)), for e from 0 to 1 */
INLINE void logarithm(const double *restrict small, int m, double *restrict log) {
    for (int i = 0; i < m; i++) {
        double s = small[i] / (2.0 + small[i]);
        double z = s * s;
        double z2 = z * z, z4 = z2 * z2, z8 = z4 * z4;
        double q0 = (1.0 + z * (1.0 / 3)) + z2 * (1.0 / 5 + z * (1.0 / 7));
        double q4 = (1.0 / 9 + z * (1.0 / 11)) + z2 * (1.0 / 13 + z * (1.0 / 15));
        double q8 = (1.0 / 17 + z * (1.0 / 19)) + z2 * (1.0 / 21 + z * (1.0 / 23));
        double q12 = (1.0 / 25 + z * (1.0 / 27)) + z2 * (1.0 / 29 + z * (1.0 / 31));
        double q = (q0 + z4 * q4) + z8 * ((q8 + z4 * q12) + z8 * (1.0 / 33 + z * (1.0 / 35)));
        log[i] = 2.0 * s * q;
    }
}

/* pull is (1 - 2y) times the weight of the loss: its sign tells the label. The loss is
   log(1 + e^u), u = (1 - 2y) f. Summed in several lanes, always the same ones. */
INLINE double sum_of_losses(const Chunk *c, const double *restrict log, int m) {
    double lanes[LANES] = {0.0}, total = 0.0;
    int i = 0;
    for (; i + LANES <= m; i += LANES)
        for (int j = 0; j < LANES; j++) {
            double f = c->score[i + j], g = c->pull[i + j];
            double wrong = (g >= 0.0) == (f >= 0.0) ? size_of(f) : 0.0;
            lanes[j] += size_of(g) * (log[i + j] + wrong);
        }
    for (; i < m; i++) {
        double f = c->score[i], g = c->pull[i];
        double wrong = (g >= 0.0) == (f >= 0.0) ? size_of(f) : 0.0;
        total += size_of(g) * (log[i] + wrong);
    }
    for (int j = 0; j < LANES; j++) total += lanes[j];
    return total;
}

/* What groups weigh on a row of a side by how likely it is of each. */
INLINE void soften(const Rows *r, const Soft *soft, int64_t lo, int m, Chunk *c) {
    for (int i = 0; i < m; i++) {
        int64_t side = r->side[c->cell[i]];
        if (side < 0) continue;
        const float *of_row = soft->memberships + (lo + i) * soft->n_groups;
        const double *on = soft->on_groups + side * soft->n_groups;
        double total = 0.0;
        for (int64_t g = 0; g < soft->n_groups; g++) total += of_row[g] * on[g];
        c->other[i] += total * c->weight[i];
    }
}

/* The default game: the loss, and a sigmoid proxy times `bump` of the cell and what comes by
   memberships. The proxy has slope s(v) s(-v) and curvature s(v) s(-v) (s(-v) - s(v)), v = f - t,
   read off e^-|v|. The curvature changes its sign; a Hessian must not. */
INLINE double descend(const Rows *r, int64_t lo, int m, Chunk *c) {
    double *restrict small = c->small, *restrict far = c->far;
    double *restrict step = c->step, *restrict bend = c->bend;
    take_weighted(r, r->pull, c, m, c->pull);
    take_weighted(r, r->bump, c, m, step);
    for (int i = 0; i < m; i++) bend[i] = size_of(step[i]);
    if (r->n_soft) {
        memset(c->other, 0, sizeof c->other);
        for (int64_t s = 0; s < r->n_soft; s++) soften(r, r->soft + s, lo, m, c);
        for (int i = 0; i < m; i++) {
            step[i] += c->other[i];
            bend[i] += size_of(c->other[i]);
        }
    }
    exponential(c->score, r->threshold, m, small);
    larger_side(small, m, far);
    for (int i = 0; i < m; i++) {
        double near = small[i] * far[i], slope = near * far[i];
        step[i] *= slope;
        bend[i] *= slope * (far[i] - near);
    }
    if (r->threshold != 0.0) {
        exponential(c->score, 0.0, m, small);
        larger_side(small, m, far);
    }
    const double *restrict f = c->score, *restrict pull = c->pull;
    for (int i = 0; i < m; i++) { /* the loss has slope s(u) */
        double near = small[i] * far[i];
        step[i] += pull[i] * ((pull[i] >= 0.0) == (f[i] >= 0.0) ? far[i] : near);
        bend[i] += size_of(pull[i]) * (near * far[i]);
    }
    write_reals(r->gradient, r->gradient_size, lo, m, step);
    write_reals(r->hessian, r->gradient_size, lo, m, bend);
    logarithm(small, m, c->other);
    return sum_of_losses(c, c->other, m);
}

/* The weight of rows decided upon positively, 0 of the others. Summing it by cell is a loop of its
   own: a branch in there, which no processor predicts, would take three times as long. */
INLINE void positives(const Rows *r, int m, Chunk *c) {
    const double *restrict f = c->score, *restrict w = c->weight;
    double *restrict positive = c->other;
    for (int i = 0; i < m; i++) positive[i] = f[i] >= r->threshold ? w[i] : 0.0;
}

/* Weight of positive decisions by cell, and the loss: all that is read of rows held out. */
INLINE double look(const Rows *r, int m, Chunk *c, double *restrict sums) {
    take_weighted(r, r->pull, c, m, c->pull);
    exponential(c->score, 0.0, m, c->small);
    logarithm(c->small, m, c->bend);
    positives(r, m, c);
    for (int i = 0; i < m; i++) sums[c->cell[i]] += c->other[i];
    return sum_of_losses(c, c->bend, m);
}

/* The paper's game needs sums by cell as well: of positive decisions, losses and scores. With
   u = (1 - 2y) f: loss log(1 + e^u), slope s(u), curvature s(u) s(-u), from e^-|f|. */
INLINE void sum_and_descend(const Rows *r, int64_t lo, int m, Chunk *c, double *restrict sums) {
    const double *restrict f = c->score, *restrict w = c->weight;
    double *restrict small = c->small, *restrict far = c->far, *restrict u = c->pull;
    double *restrict step = c->step, *restrict bend = c->bend;
    exponential(f, 0.0, m, small);
    larger_side(small, m, far);
    take(r->away, c, m, u);
    take(r->shift, c, m, step);
    take(r->scale, c, m, bend);
    for (int i = 0; i < m; i++) {
        u[i] *= f[i];
        step[i] = w[i] * (bend[i] * (u[i] >= 0.0 ? far[i] : small[i] * far[i]) + step[i]);
    }
    take_weighted(r, r->curve, c, m, bend);
    for (int i = 0; i < m; i++) bend[i] *= small[i] * far[i] * far[i];
    write_reals(r->gradient, r->gradient_size, lo, m, step);
    write_reals(r->hessian, r->gradient_size, lo, m, bend);
    double *restrict loss = step;
    logarithm(small, m, loss);
    for (int i = 0; i < m; i++) loss[i] = w[i] * ((u[i] > 0.0 ? u[i] : 0.0) + loss[i]);
    positives(r, m, c);
    for (int i = 0; i < m; i++) {
        double *of_cell = sums + 3 * (int64_t)c->cell[i];
        of_cell[0] += c->other[i];
        of_cell[1] += loss[i];
        of_cell[2] += w[i] * f[i];
    }
}

/* Another scale and shift of the slopes that are in the gradient. */
INLINE void correct(const Rows *r, int64_t lo, int m, Chunk *c) {
    read_reals(r->gradient, r->gradient_size, lo, m, c->step);
    for (int i = 0; i < m; i++) {
        uint32_t k = c->cell[i];
        c->step[i] = r->scale[k] * c->step[i] + c->weight[i] * r->shift[k];
    }
    write_reals(r->gradient, r->gradient_size, lo, m, c->step);
}

INLINE void work_block(Rows *r, int64_t block, Chunk *c) {
    int64_t end = (block + 1) * r->block < r->n ? (block + 1) * r->block : r->n;
    double loss = 0.0;
    for (int64_t lo = block * r->block; lo < end; lo += CHUNK) {
        int m = (int)(end - lo < CHUNK ? end - lo : CHUNK);
        read_cells(r, lo, m, c->cell);
        read_weight(r, lo, m, c->weight);
        if (r->task != CORRECT) read_reals(r->scores, r->scores_size, lo, m, c->score);
        if (r->task == DESCEND)
            loss += descend(r, lo, m, c);
        else if (r->task == LOOK)
            loss += look(r, m, c, r->sums + block * r->n_cells);
        else if (r->task == SUM_AND_DESCEND)
            sum_and_descend(r, lo, m, c, r->sums + 3 * block * r->n_cells);
        else
            correct(r, lo, m, c);
    }
    if (r->loss) r->loss[block] = loss;
}

INLINE void work_blocks(Rows *r) {
    Chunk chunk;
    for (;;) {
        int64_t block = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED);
        if (block * r->block >= r->n) return;
        work_block(r, block, &chunk);
    }
}

/* The same code for processors with and without wide registers. */
static void narrow(Rows *r) { work_blocks(r); }
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void wide(Rows *r) { work_blocks(r); }

/* AVX2 and FMA in the processor, and registers that the system keeps. Compilers have a built-in
   for it, which some of them cannot link into a shared library. */
static int has_wide(void) {
    uint32_t a, b, c, d, kept, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_OSXSAVE)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return 0;
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    return (kept & 6) == 6;
}
#else
static void wide(Rows *r) { work_blocks(r); }
static int has_wide(void) { return 0; }
#endif

/* Take blocks until none is left: called by as many threads as shall share the rows. */
EXPORT void fairboost_work(Rows *r) {
    if (r->wide)
        wide(r);
    else
        narrow(r);
}

EXPORT int64_t fairboost_has_wide(void) { return has_wide(); }

/* What a caller must agree with. */
EXPORT int64_t fairboost_size_of_rows(void) { return (int64_t)sizeof(Rows); }
