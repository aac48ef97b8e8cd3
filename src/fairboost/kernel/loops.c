/* Loops over rows: what costs time in a round, and nothing else.

   Rows are taken in blocks by whichever thread is free, and what is summed is kept block by block:
   results do not depend on the number of threads. Within a block rows are worked off in chunks
   that stay in the cache, each by several short loops: a loop over two or three arrays is
   vectorised, one over all of them is not, and runs at a third of the speed.

   No header of Python or NumPy is needed: library.py describes `Pass` and `Fall` to ctypes. It has
   checked every array before it calls; nothing is checked here. */

#include <stddef.h>
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

enum { CHUNK = 512 };
enum { DESCEND, MEASURE, SUM_AND_DESCEND, CORRECT };
enum { DESCEND_NUMBERS = CORRECT + 1, MEASURE_NUMBERS, DESCEND_CLASSES, MEASURE_CLASSES };
enum { NARROW, WIDE, FUSED };

/* Rows known by the probability of their group: (n, n_groups), and what a group weighs on a
   positive decision of a row of label 0, then of label 1: (2, n_groups). Where a number is
   predicted, what it weighs on a row as a `table` has it: (n_groups, width). Of several classes, what
   it weighs on each of them of a row of each: (n_classes, n_groups, n_classes). */
typedef struct {
    const float *memberships;
    const double *on_groups;
    int64_t n_groups;
} Soft;

typedef struct {
    int64_t task;               /* DESCEND ... */
    int64_t n, block, next;     /* rows, rows in a block, the first block that nobody has taken */
    int64_t takers;             /* threads that took a block: counted here, 0 before */
    int64_t wide;               /* NARROW, or where has_wide(): WIDE, FUSED */
    int64_t n_cells;
    const void *cells;          /* unsigned, of 1, 2 or 4 bytes */
    int64_t cells_size;
    const void *scores;         /* float or double: 4 or 8 bytes */
    int64_t scores_size;
    const float *weight;        /* or NULL */
    double threshold;
    int64_t single;                      /* DESCEND in single precision, its tables too */
    const void *pull, *bump;             /* by cell: DESCEND, MEASURE */
    const int64_t *side;                 /* by cell, a label, or -1 for none: DESCEND with soft */
    const Soft *soft;
    int64_t n_soft;
    const double *away, *scale, *shift, *curve; /* by cell: SUM_AND_DESCEND, CORRECT */
    void *gradient, *hessian;   /* float or double: 4 or 8 bytes */
    int64_t gradient_size;
    double *sums;               /* by block and cell (MEASURE 1, SUM_AND_DESCEND 3) */
    double *loss;               /* by block */
    /* Where a number is predicted (loops_numbers.h). */
    int64_t kind;               /* of the loss: SQUARED ... */
    double shape, stepped, closest, of_deviance; /* of the loss; e^step, the least residual */
    double most_up; /* the share of the steepest slope of the loss that may push a row up */
    const double *target, *base;         /* by row; what of the loss no score changes, or NULL */
    const double *offset, *rate;         /* by row: log exposure and 1 / exposure, or NULL */
    const float *loss_weight;            /* by row, or NULL */
    int64_t n_levels;
    const double *levels;                /* thresholds, rising */
    const double *knots, *narrow;        /* ends of intervals: n_levels + 2; 1 / their width */
    double spread;                       /* what steps are multiplied by */
    int64_t width;                       /* columns of the table */
    int64_t at_prediction, by_interval, at_loss, at_steps; /* first columns, -1 for none */
    const double *table;                 /* (n_cells, width) */
    int64_t reads, n_sums;               /* READS_..., and the sums that they make */
    /* Where one of several classes is given (loops_classes.h). The table is by cell and class, or
       NULL where nothing weighs; sums are by block, cell and class. */
    int64_t n_classes;                   /* at most ROOM */
    int64_t scores_by_class, gradient_by_class; /* 1: a class after the other; 0: row after row */
    const int64_t *label;                /* by cell */
    const float *factor;                 /* by class, in the loss; or NULL */
    const double *costs;                 /* (n_classes, n_classes), or NULL */
    double curvature, sharpness, cost_sharpness;
} Pass;

INLINE void read_cells(const Pass *r, int64_t lo, int m, uint32_t *restrict cell) {
    if (r->cells_size == 1)
        for (int i = 0; i < m; i++) cell[i] = ((const uint8_t *)r->cells)[lo + i];
    else if (r->cells_size == 2)
        for (int i = 0; i < m; i++) cell[i] = ((const uint16_t *)r->cells)[lo + i];
    else
        memcpy(cell, (const uint32_t *)r->cells + lo, (size_t)m * sizeof *cell);
}

#define JOINED(name, real) name##_##real
#define NAMED(name, real) JOINED(name, real)
#define OF(name) NAMED(name, REAL)

#define REAL double
#define BITS uint64_t
#define SINGLE 0
#include "loops_real.h"
#undef REAL
#undef BITS
#undef SINGLE

#define REAL float
#define BITS uint32_t
#define SINGLE 1
#include "loops_real.h"
#include "loops_numbers.h"
#include "loops_classes.h"

/* What follows is in double precision: sums are read off it. */

typedef Chunk_double Chunk;

/* The weight of rows decided upon positively, 0 of the others. Summing it by cell is a loop of its
   own: a branch in there, which no processor predicts, would take three times as long. */
INLINE void positives(const Pass *r, int m, Chunk *c) {
    const double *restrict f = c->score, *restrict w = c->weight;
    double *restrict positive = c->other;
    for (int i = 0; i < m; i++) positive[i] = f[i] >= r->threshold ? w[i] : 0.0;
}

/* Weight of positive decisions by cell, and the loss: all that is read of rows held out. */
INLINE double measure(const Pass *r, int m, Chunk *c, double *restrict sums) {
    take_weighted_double(r, r->pull, c, m, c->pull);
    exponential_double(c->score, 0.0, m, c->small);
    logarithm_double(c->small, m, c->bend);
    positives(r, m, c);
    for (int i = 0; i < m; i++) sums[c->cell[i]] += c->other[i];
    return sum_of_losses_double(c, c->bend, m);
}

/* The paper's game needs sums by cell as well: of positive decisions, losses and scores. With
   u = (1 - 2y) f: loss log(1 + e^u), slope s(u), curvature s(u) s(-u), from e^-|f|. */
INLINE void sum_and_descend(const Pass *r, int64_t lo, int m, Chunk *c, double *restrict sums) {
    const double *restrict f = c->score, *restrict w = c->weight;
    double *restrict small = c->small, *restrict far = c->far, *restrict u = c->pull;
    double *restrict step = c->step, *restrict bend = c->bend;
    exponential_double(f, 0.0, m, small);
    larger_side_double(small, m, far);
    take_double(r->away, c, m, u);
    take_double(r->shift, c, m, step);
    take_double(r->scale, c, m, bend);
    for (int i = 0; i < m; i++) {
        u[i] *= f[i];
        step[i] = w[i] * (bend[i] * (u[i] >= 0.0 ? far[i] : small[i] * far[i]) + step[i]);
    }
    take_weighted_double(r, r->curve, c, m, bend);
    for (int i = 0; i < m; i++) bend[i] *= small[i] * far[i] * far[i];
    write_reals_double(r->gradient, r->gradient_size, lo, m, step);
    write_reals_double(r->hessian, r->gradient_size, lo, m, bend);
    double *restrict loss = step;
    logarithm_double(small, m, loss);
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
INLINE void correct(const Pass *r, int64_t lo, int m, Chunk *c) {
    read_reals_double(r->gradient, r->gradient_size, lo, m, c->step);
    for (int i = 0; i < m; i++) {
        uint32_t k = c->cell[i];
        c->step[i] = r->scale[k] * c->step[i] + c->weight[i] * r->shift[k];
    }
    write_reals_double(r->gradient, r->gradient_size, lo, m, c->step);
}

/* Of a chunk, in either precision. */
typedef union {
    Chunk_double twice;
    Chunk_float once;
    Part part;
    ClassPart classes;
} Chunks;

INLINE void work_block_of_numbers(Pass *r, int64_t lo, int64_t end, int64_t block, Part *c) {
    double *sums = r->n_sums ? r->sums + block * r->n_cells * (r->n_levels + 1) * r->n_sums : NULL;
    double loss = 0.0;
    for (; lo < end; lo += PART) {
        int m = (int)(end - lo < PART ? end - lo : PART);
        loss += r->task == DESCEND_NUMBERS ? descend_numbers(r, lo, m, c)
                                           : measure_numbers(r, lo, m, c, sums);
    }
    r->loss[block] = loss;
}

INLINE void work_block_of_classes(Pass *r, int64_t lo, int64_t end, int64_t block, ClassPart *c) {
    double *sums = r->sums ? r->sums + block * r->n_cells * r->n_classes : NULL;
    const int64_t most = rows_of_part(r);
    double loss = 0.0;
    for (; lo < end; lo += most) {
        int m = (int)(end - lo < most ? end - lo : most);
        loss += r->task == DESCEND_CLASSES ? descend_classes(r, lo, m, c)
                                           : measure_classes(r, lo, m, c, sums);
    }
    r->loss[block] = loss;
}

INLINE void work_block(Pass *r, int64_t block, Chunks *chunks) {
    Chunk *c = &chunks->twice;
    int64_t end = (block + 1) * r->block < r->n ? (block + 1) * r->block : r->n;
    double loss = 0.0;
    if (r->task >= DESCEND_CLASSES) {
        work_block_of_classes(r, block * r->block, end, block, &chunks->classes);
        return;
    }
    if (r->task >= DESCEND_NUMBERS) {
        work_block_of_numbers(r, block * r->block, end, block, &chunks->part);
        return;
    }
    for (int64_t lo = block * r->block; lo < end; lo += CHUNK) {
        int m = (int)(end - lo < CHUNK ? end - lo : CHUNK);
        if (r->task == DESCEND) {
            loss += r->single ? descend_float(r, lo, m, &chunks->once) : descend_double(r, lo, m, c);
            continue;
        }
        read_rows_double(r, lo, m, c);
        if (r->task == MEASURE)
            loss += measure(r, m, c, r->sums + block * r->n_cells);
        else if (r->task == SUM_AND_DESCEND)
            sum_and_descend(r, lo, m, c, r->sums + 3 * block * r->n_cells);
        else
            correct(r, lo, m, c);
    }
    if (r->loss) r->loss[block] = loss;
}

INLINE void work_blocks(Pass *r) {
    Chunks chunks;
    int64_t taken = 0;
    for (;; taken++) {
        int64_t block = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED);
        if (block * r->block >= r->n) break;
        work_block(r, block, &chunks);
    }
    if (taken) __atomic_fetch_add(&r->takers, 1, __ATOMIC_RELAXED);
}

/* The same code for processors with and without wide registers. The first two give the same bits.
   The last rounds a product and a sum once instead of twice: its bits are others. */
static void narrow(Pass *r) { work_blocks(r); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void wide(Pass *r) { work_blocks(r); }
__attribute__((target("avx2,fma"))) static void fused(Pass *r) { work_blocks(r); }

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
static void wide(Pass *r) { work_blocks(r); }
static void fused(Pass *r) { work_blocks(r); }
static int has_wide(void) { return 0; }
#endif

/* Take blocks until none is left: called by as many threads as shall share the rows. */
EXPORT void fairboost_pass(Pass *r) {
    if (r->wide == FUSED)
        fused(r);
    else if (r->wide == WIDE)
        wide(r);
    else
        narrow(r);
}

/* A tree, and rows to be sent down it. */

typedef struct {
    float at;             /* rows below it go left; of a leaf, its value */
    int32_t feature;
    int32_t child[2];     /* left and right; of a leaf, itself */
    int32_t missing_right; /* whether rows without a value go right */
} Node;

typedef struct {
    int64_t n, block, next, takers; /* as in Pass */
    int64_t n_features, depth; /* steps that lead every row to a leaf */
    const float *table;        /* (n, n_features) */
    const Node *nodes;
    float *scores;
} Fall;

enum { SIDE_BY_SIDE = 8 };

/* Add the values of leaves. Several rows go side by side, as each step of one waits for its memory,
   and by arithmetic: nobody could predict a branch. */
EXPORT void fairboost_fall(Fall *f) {
    int64_t taken = 0;
    for (;; taken++) {
        int64_t block = __atomic_fetch_add(&f->next, 1, __ATOMIC_RELAXED);
        int64_t lo = block * f->block, end = lo + f->block < f->n ? lo + f->block : f->n;
        if (lo >= f->n) break;
        for (; lo < end; lo += SIDE_BY_SIDE) {
            int m = (int)(end - lo < SIDE_BY_SIDE ? end - lo : SIDE_BY_SIDE);
            int32_t at[SIDE_BY_SIDE] = {0};
            for (int64_t d = 0; d < f->depth; d++)
                for (int i = 0; i < m; i++) {
                    const Node *node = f->nodes + at[i];
                    float x = f->table[(lo + i) * f->n_features + node->feature];
                    at[i] = node->child[(!(x < node->at)) & (node->missing_right | (x == x))];
                }
            for (int i = 0; i < m; i++) f->scores[lo + i] += f->nodes[at[i]].at;
        }
    }
    if (taken) __atomic_fetch_add(&f->takers, 1, __ATOMIC_RELAXED);
}

EXPORT int64_t fairboost_has_wide(void) { return has_wide(); }

/* What a caller must agree with (library.py): a number that changes with the meaning of any field
   or function, and where each field lies. */
EXPORT int64_t fairboost_abi(void) { return 4; }

typedef struct {
    const char *name; /* NULL after the last */
    int64_t offset, size;
} Field;

#define ALL_OF(type) {#type, 0, sizeof(type)}
#define AT(type, field) {#type "." #field, offsetof(type, field), sizeof(((type *)0)->field)}

static const Field FIELDS[] = {
    ALL_OF(Soft), AT(Soft, memberships), AT(Soft, on_groups), AT(Soft, n_groups),
    ALL_OF(Pass), AT(Pass, task), AT(Pass, n), AT(Pass, block), AT(Pass, next), AT(Pass, takers),
    AT(Pass, wide), AT(Pass, n_cells), AT(Pass, cells), AT(Pass, cells_size), AT(Pass, scores),
    AT(Pass, scores_size), AT(Pass, weight), AT(Pass, threshold), AT(Pass, single),
    AT(Pass, pull), AT(Pass, bump), AT(Pass, side), AT(Pass, soft), AT(Pass, n_soft),
    AT(Pass, away), AT(Pass, scale), AT(Pass, shift), AT(Pass, curve), AT(Pass, gradient),
    AT(Pass, hessian), AT(Pass, gradient_size), AT(Pass, sums), AT(Pass, loss),
    AT(Pass, kind), AT(Pass, shape), AT(Pass, stepped), AT(Pass, closest), AT(Pass, of_deviance),
    AT(Pass, most_up),
    AT(Pass, target), AT(Pass, base), AT(Pass, offset), AT(Pass, rate), AT(Pass, loss_weight),
    AT(Pass, n_levels), AT(Pass, levels), AT(Pass, knots), AT(Pass, narrow), AT(Pass, spread),
    AT(Pass, width), AT(Pass, at_prediction), AT(Pass, by_interval),
    AT(Pass, at_loss), AT(Pass, at_steps), AT(Pass, table), AT(Pass, reads), AT(Pass, n_sums),
    AT(Pass, n_classes), AT(Pass, scores_by_class), AT(Pass, gradient_by_class), AT(Pass, label),
    AT(Pass, factor), AT(Pass, costs), AT(Pass, curvature), AT(Pass, sharpness),
    AT(Pass, cost_sharpness),
    ALL_OF(Fall), AT(Fall, n), AT(Fall, block), AT(Fall, next), AT(Fall, takers),
    AT(Fall, n_features), AT(Fall, depth), AT(Fall, table), AT(Fall, nodes), AT(Fall, scores),
    ALL_OF(Node), AT(Node, at), AT(Node, feature), AT(Node, missing_right),
    {"Node.left", offsetof(Node, child), sizeof(int32_t)},
    {"Node.right", offsetof(Node, child) + sizeof(int32_t), sizeof(int32_t)},
    {NULL, 0, 0},
};

EXPORT const Field *fairboost_fields(void) { return FIELDS; }
